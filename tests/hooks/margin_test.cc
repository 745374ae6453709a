#include "hooks/margin.h"

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

constexpr Bytes Mib(int64_t mib) { return Bytes{mib << 20}; }

constexpr Bytes kBudget = Mib(3200);
constexpr Bytes kLeast = Mib(32);
constexpr Bytes kPart = Mib(100);

TEST(MarginTest, TheLeastIsAPartOfTheBudgetOrAMebibyte) {
  EXPECT_EQ(LeastMargin(kBudget), kLeast);
  EXPECT_EQ(LeastMargin(Mib(20)), Mib(1));
}

TEST(MarginTest, TheFirstPlanLeavesWhatTheAllocatorWasted) {
  EXPECT_EQ(FirstMargin(kBudget, Mib(10)), kLeast);
  EXPECT_EQ(FirstMargin(kBudget, Mib(100)), Mib(100));
  EXPECT_EQ(FirstMargin(kBudget, Mib(2000)), Mib(1600));
}

TEST(MarginTest, StepsThatAreShortMakeThePlanSmaller) {
  Margins margins = {.now = kLeast};
  EXPECT_TRUE(Grow(kBudget, Mib(3168), &margins));
  EXPECT_EQ(margins.now, kLeast + kPart);
  EXPECT_TRUE(Grow(kBudget, Mib(3068), &margins));
  EXPECT_EQ(margins.now, kLeast + kPart + kPart);
}

TEST(MarginTest, APlanThatDoesNotBecomeSmallerIsTheLast) {
  Margins margins = {.now = kLeast};
  ASSERT_TRUE(Grow(kBudget, Mib(3000), &margins));
  EXPECT_FALSE(Grow(kBudget, Mib(2990), &margins));
  EXPECT_FALSE(Grow(kBudget, Mib(2000), &margins));
}

TEST(MarginTest, AMarginGrowsAFewTimesAndToHalfTheBudget) {
  Margins margins = {.now = Mib(1550)};
  Bytes peak = Mib(1650);
  for (int i = 0; i < Margins::kMostChanges; ++i, peak -= kPart) {
    EXPECT_TRUE(Grow(kBudget, peak, &margins));
    EXPECT_EQ(margins.now, Mib(1600));
  }
  EXPECT_FALSE(Grow(kBudget, peak, &margins));
}

TEST(MarginTest, APlanThatLeavesRoomUnusedGetsIt) {
  Margins margins = {.now = Mib(400)};
  EXPECT_TRUE(Shrink(kBudget, Mib(2800), Mib(2840), &margins));
  EXPECT_EQ(margins.now, Mib(40) + kLeast);
  EXPECT_EQ(margins.held, Mib(400));
}

TEST(MarginTest, APlanThatLeavesAHundredthStays) {
  Margins margins = {.now = Mib(400)};
  EXPECT_FALSE(Shrink(kBudget, Mib(2800), kBudget - kLeast, &margins));
  EXPECT_EQ(margins.now, Mib(400));
}

TEST(MarginTest, APlanThatTakesLessThanItMayStays) {
  Margins margins = {.now = kLeast};
  EXPECT_FALSE(Shrink(kBudget, Mib(2000), Mib(2040), &margins));
  margins.now = Mib(400);
  EXPECT_FALSE(Shrink(kBudget, Mib(2000), Mib(2040), &margins));
}

TEST(MarginTest, APlanMadeSmallerForAWasteThatIsGoneBecomesLarger) {
  Margins margins = {.now = kLeast};
  ASSERT_TRUE(Grow(kBudget, Mib(3168), &margins));
  EXPECT_TRUE(Shrink(kBudget, Mib(3068), Mib(3070), &margins));
  EXPECT_EQ(margins.now, Mib(2) + kLeast);
}

TEST(MarginTest, ALargerPlanThatIsShortGivesWayForGood) {
  Margins margins = {.now = Mib(400)};
  ASSERT_TRUE(Shrink(kBudget, Mib(2800), Mib(2840), &margins));
  EXPECT_TRUE(Grow(kBudget, Mib(3128), &margins));
  EXPECT_EQ(margins.now, Mib(400));
  EXPECT_FALSE(Shrink(kBudget, Mib(2800), Mib(2840), &margins));
  EXPECT_FALSE(Grow(kBudget, Mib(2800), &margins));
  EXPECT_EQ(margins.now, Mib(400));
}

}  // namespace
}  // namespace ebbtide
