#include "hooks/plan_margin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebbtide {
namespace {

constexpr Bytes kGiB{int64_t{1} << 30};
constexpr Bytes Mib(int64_t count) { return Bytes{count << 20}; }
constexpr Bytes kPart{(int64_t{1} << 30) / 100};

TEST(PlanMarginTest, FirstPlanLeavesAPartOfTheBudgetAndTheWasteBeside) {
  const PlanMargin margin = MarginFor({.budget = kGiB, .beside = Mib(7)});
  EXPECT_EQ(margin.alive, kPart + Mib(7));
  EXPECT_EQ(margin.address, kPart + Mib(7));
}

TEST(PlanMarginTest, MeasuredLayoutTakesThePlaceOfThePart) {
  const PlanMargin margin =
      MarginFor({.budget = kGiB, .beside = Mib(3), .of_layout = Mib(5)});
  EXPECT_EQ(margin.alive, Mib(5) + kMappedMargin);
  EXPECT_EQ(margin.address, Mib(3) + kMappedMargin);
}

TEST(PlanMarginTest, LargeBudgetLeavesAPartBesideTheMeasuredLayout) {
  const Bytes budget = Mib(16 << 10);
  const PlanMargin margin =
      MarginFor({.budget = budget, .beside = Mib(3), .of_layout = Mib(5)});
  EXPECT_EQ(margin.alive, Mib(5 + 32));
  EXPECT_EQ(margin.address, Mib(3 + 32));
}

TEST(PlanMarginTest, WastefulLayoutLeavesNoMoreThanTheFirstPlan) {
  const PlanMargin margin =
      MarginFor({.budget = kGiB, .beside = Mib(3), .of_layout = Mib(90)});
  EXPECT_EQ(margin.alive, kPart + Mib(3));
}

TEST(PlanMarginTest, EachPlanThatWasShortLeavesTwiceAsMuchMore) {
  const auto alive = [](int tightened) {
    return MarginFor(
               {.budget = Mib(128), .beside = Bytes{}, .tightened = tightened})
        .alive;
  };
  EXPECT_EQ(alive(1) - alive(0), Mib(1));
  EXPECT_EQ(alive(2) - alive(1), Mib(2));
  EXPECT_EQ(alive(3) - alive(2), Mib(4));
}

TEST(PlanMarginTest, NoPlanLeavesMoreThanHalf) {
  EXPECT_EQ(
      MarginFor({.budget = kGiB, .beside = Bytes{}, .tightened = 9}).alive,
      Mib(512));
  EXPECT_EQ(MarginFor({.budget = kGiB, .of_step = kGiB}).alive, Mib(512));
}

TEST(PlanMarginTest, WithoutBesideTheStepsWasteCountsForLiveBytesOnly) {
  const PlanMargin margin = MarginFor({.budget = kGiB, .of_step = Mib(40)});
  EXPECT_EQ(margin.alive, Mib(40));
  EXPECT_EQ(margin.address, kPart);
}

}  // namespace
}  // namespace ebbtide
