#include "planner/size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebbtide {
namespace {

using ::testing::HasSubstr;

std::string Refusal(absl::string_view text) {
  const auto budget = ParseBudget(text);
  EXPECT_FALSE(budget.ok()) << text;
  return std::string(budget.status().message());
}

TEST(SizeTest, ReadsEveryUnit) {
  EXPECT_EQ(*ParseSize("7"), Bytes{7});
  EXPECT_EQ(*ParseSize("7B"), Bytes{7});
  EXPECT_EQ(*ParseSize("2KiB"), Bytes{2048});
  EXPECT_EQ(*ParseSize("3MiB"), Bytes{3 << 20});
  EXPECT_EQ(*ParseSize("8GiB"), Bytes{int64_t{8} << 30});
  EXPECT_EQ(*ParseSize("1TiB"), Bytes{int64_t{1} << 40});
  EXPECT_EQ(*ParseSize("2KB"), Bytes{2000});
  EXPECT_EQ(*ParseSize("3 MB"), Bytes{3000000});
  EXPECT_EQ(*ParseSize(" 4GB "), Bytes{4000000000});
  EXPECT_EQ(*ParseSize("160M"), Bytes{160 << 20});
  EXPECT_EQ(*ParseSize("8g"), Bytes{int64_t{8} << 30});
  EXPECT_EQ(*ParseSize("2k"), Bytes{2048});
  EXPECT_EQ(*ParseSize("1T"), Bytes{int64_t{1} << 40});
  EXPECT_EQ(*ParseSize("160mib"), Bytes{160 << 20});
  EXPECT_EQ(*ParseSize("8gb"), Bytes{8000000000});
  EXPECT_EQ(*ParseSize("1.5GiB"), Bytes{int64_t{3} << 29});
  EXPECT_EQ(*ParseSize("1152921504606846976"), Bytes{int64_t{1} << 60});
  EXPECT_EQ(*ParseSize("9007199254740993"), Bytes{9007199254740993});
}

TEST(SizeTest, RefusesWhatIsNoSizeAndSaysWhatWasExpected) {
  EXPECT_EQ(Refusal("8GiBs"),
            "expected a unit among B, KiB, MiB, GiB, TiB, KB, MB, GB, TB, K, "
            "M, G, T, got \"8GiBs\"");
  EXPECT_THAT(Refusal("8x"), HasSubstr("expected a unit among"));
  EXPECT_THAT(Refusal("0"), HasSubstr("expected a size of at least 1 byte"));
  EXPECT_THAT(Refusal("0.5B"), HasSubstr("at least 1 byte"));
  EXPECT_THAT(Refusal("-3MiB"), HasSubstr("expected a size such as 8GiB"));
  EXPECT_THAT(Refusal("1e9"), HasSubstr("expected a size such as"));
  EXPECT_THAT(Refusal("nan"), HasSubstr("expected a size such as"));
  EXPECT_THAT(Refusal(""), HasSubstr("expected a size such as"));
  EXPECT_THAT(Refusal("GiB"), HasSubstr("expected a size such as"));
  EXPECT_THAT(Refusal("1.2.3GiB"), HasSubstr("expected a size such as"));
  EXPECT_THAT(Refusal("9999999999GiB"), HasSubstr("at most 2^60 bytes"));
  EXPECT_THAT(Refusal("1152921504606846977000"), HasSubstr("at most 2^60"));
}

TEST(SizeTest, ASmallBudgetNeedsAUnit) {
  EXPECT_EQ(Refusal("160"),
            "expected a unit, as 160MiB or 160GiB, got \"160\"");
  EXPECT_THAT(Refusal("cuda:0=8"), HasSubstr("a unit, as 8MiB or 8GiB"));
  EXPECT_THAT(Refusal("1048575"), HasSubstr("expected a unit"));
  EXPECT_EQ((*ParseBudget("1048576"))[0].amount.bytes, Bytes{1 << 20});
  EXPECT_EQ((*ParseBudget("160B"))[0].amount.bytes, Bytes{160});
}

TEST(SizeTest, ReadsSharesAndAuto) {
  EXPECT_EQ((*ParseBudget("80%"))[0].amount,
            (Amount{.kind = Amount::Kind::kShare, .share = 0.8}));
  EXPECT_EQ((*ParseBudget("auto"))[0].amount.kind, Amount::Kind::kAuto);
  EXPECT_THAT(Refusal("0%"), HasSubstr("a percentage above 0%"));
  EXPECT_THAT(Refusal("101%"), HasSubstr("up to 100%"));
  EXPECT_THAT(Refusal("%"), HasSubstr("a percentage"));
}

TEST(SizeTest, ReadsBudgetsPerDevice) {
  const auto budget = ParseBudget("cuda:0=8GiB, cpu=50%,cuda:1=auto");
  ASSERT_EQ(budget.status(), absl::OkStatus());
  ASSERT_EQ(budget->size(), 3u);
  EXPECT_EQ((*budget)[0], (DeviceBudget{"cuda:0",
                                        {.kind = Amount::Kind::kBytes,
                                         .bytes = Bytes{int64_t{8} << 30}}}));
  EXPECT_EQ((*budget)[1].device, "cpu");
  EXPECT_EQ((*budget)[2].amount.kind, Amount::Kind::kAuto);
  EXPECT_THAT(Refusal("cpu=1GiB,cpu=2GiB"), HasSubstr("each device once"));
  EXPECT_THAT(Refusal("1GiB,cpu=2GiB"), HasSubstr("one size, or device=size"));
  EXPECT_THAT(Refusal("gpu=1GiB"), HasSubstr("cpu, cuda or cuda:N"));
  EXPECT_THAT(Refusal("cuda:=1GiB"), HasSubstr("cpu, cuda or cuda:N"));
  EXPECT_THAT(Refusal("cuda:-1=1GiB"), HasSubstr("cpu, cuda or cuda:N"));
  EXPECT_THAT(Refusal("cpu=1GiB,"), HasSubstr("a size such as"));
}

TEST(SizeTest, WhatIsSaidOfOneDeviceGoesBeforeWhatIsSaidOfAll) {
  const auto budgets = ParseBudget("cuda:1=2GiB,cuda=1GiB,cpu=3GiB");
  ASSERT_EQ(budgets.status(), absl::OkStatus());
  EXPECT_EQ(AmountForCuda(*budgets, 0)->bytes, Bytes{int64_t{1} << 30});
  EXPECT_EQ(AmountForCuda(*budgets, 1)->bytes, Bytes{int64_t{2} << 30});
  EXPECT_EQ(AmountForCuda(*ParseBudget("7B"), 5)->bytes, Bytes{7});
  EXPECT_EQ(AmountForCuda(*ParseBudget("cpu=7B"), 0), nullptr);
  EXPECT_EQ(AmountForCuda(*ParseBudget("cuda:1=7B"), 11), nullptr);
}

TEST(SizeTest, AnAmountIsOfWhatTheDeviceHas) {
  const auto amount = [](absl::string_view text) {
    return Resolve((*ParseBudget(text))[0].amount, Bytes{1000}, Bytes{600});
  };
  EXPECT_EQ(amount("1200B"), Bytes{1200});
  EXPECT_EQ(amount("25%"), Bytes{250});
  EXPECT_EQ(amount("auto"), Bytes{540});
}

TEST(SizeTest, FormatsForPeople) {
  EXPECT_EQ(FormatSize(Bytes{12}), "12 B");
  EXPECT_EQ(FormatSize(Bytes{1536}), "1.50 KiB");
  EXPECT_EQ(FormatSize(Bytes{int64_t{8} << 30}), "8.00 GiB");
}

}  // namespace
}  // namespace ebbtide
