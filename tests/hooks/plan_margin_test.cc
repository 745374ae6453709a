#include "hooks/plan_margin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebbtide {
namespace {

constexpr Bytes kGiB{int64_t{1} << 30};
constexpr Bytes Mib(int64_t count) { return Bytes{count << 20}; }
constexpr Bytes kPart{(int64_t{1} << 30) / 100};

TEST(PlanMarginTest, FirstPlanLeavesAPartOfTheBudgetAndTheWasteBeside) {
  EXPECT_EQ(MarginFor({.budget = kGiB, .beside = Mib(7)}), kPart + Mib(7));
}

TEST(PlanMarginTest, MeasuredLayoutTakesThePlaceOfThePart) {
  for (const Bytes layout : {Mib(5), Mib(90)}) {
    EXPECT_EQ(
        MarginFor({.budget = kGiB, .beside = Mib(3), .of_layout = layout}),
        layout + kMappedMargin);
  }
}

TEST(PlanMarginTest, LargeBudgetLeavesAPartBesideTheMeasuredLayout) {
  EXPECT_EQ(
      MarginFor(
          {.budget = Mib(16 << 10), .beside = Mib(3), .of_layout = Mib(5)}),
      Mib(5 + 32));
}

TEST(PlanMarginTest, EachPlanThatWasShortLeavesTwiceAsMuchMore) {
  const auto alive = [](int tightened) {
    return MarginFor(
        {.budget = Mib(128), .beside = Bytes{}, .tightened = tightened});
  };
  EXPECT_EQ(alive(1) - alive(0), Mib(1));
  EXPECT_EQ(alive(2) - alive(1), Mib(2));
  EXPECT_EQ(alive(3) - alive(2), Mib(4));
}

TEST(PlanMarginTest, NoPlanLeavesMoreThanHalf) {
  EXPECT_EQ(MarginFor({.budget = kGiB, .beside = Bytes{}, .tightened = 9}),
            Mib(512));
  EXPECT_EQ(MarginFor({.budget = kGiB, .of_step = kGiB}), Mib(512));
}

TEST(PlanMarginTest, WithoutBesideTheStepsWasteCounts) {
  EXPECT_EQ(MarginFor({.budget = kGiB, .of_step = Mib(40)}), Mib(40));
}

}  // namespace
}  // namespace ebbtide
