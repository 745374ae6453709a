#include "planner/doubt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Profile Uncertain() {
  Profile p = ThreeOps();  // ops take 10, stages 20
  p.ops[0].spread = {.steps = 5, .median = 11, .quartiles = 1, .most = 12};
  p.ops[1].spread = {.steps = 5, .median = 10, .quartiles = 3, .most = 90};
  p.stages[2].spread = {.steps = 5, .median = 21, .quartiles = 4, .most = 26};
  return p;
}

std::vector<int> InstantsOf(const std::vector<Doubt>& doubts) {
  std::vector<int> instants;
  for (const Doubt& doubt : doubts) instants.push_back(doubt.instant);
  return instants;
}

TEST(DoubtTest, WhatMovesThePlanMostComesFirst) {
  const Plan keep = {.budget = Bytes{100}, .actions = kKeep};
  const auto doubts = RankDoubts(Uncertain(), keep, 10);
  ASSERT_EQ(doubts.status(), absl::OkStatus());
  EXPECT_THAT(InstantsOf(*doubts), ElementsAre(5, 1, 0));
  EXPECT_EQ((*doubts)[0].upper, 25);
  EXPECT_EQ((*doubts)[0].moves, 5);
  EXPECT_EQ((*doubts)[2].moves, 2);
  EXPECT_EQ(RankDoubts(Uncertain(), keep, 1)->size(), 1);
}

TEST(DoubtTest, WhatIsRunTwiceCountsTwice) {
  const Plan rebuild = {.budget = Bytes{100}, .actions = kRebuild};
  const auto doubts = RankDoubts(Uncertain(), rebuild, 10);
  ASSERT_EQ(doubts.status(), absl::OkStatus());
  EXPECT_THAT(InstantsOf(*doubts), ElementsAre(1, 5, 0));
  EXPECT_EQ((*doubts)[0].runs, 2);
  EXPECT_EQ((*doubts)[0].moves, 6);
}

// The first op ends the later, the shorter the last stage waits.
TEST(DoubtTest, WhatACopyHidesMovesNothing) {
  Profile p = Uncertain();
  p.d2h = p.h2d = 4.0 / 50;  // value 0 takes 50 each way
  const Plan offload = {.budget = Bytes{100},
                        .actions = {{Action::Do::kForward, 0},
                                    {Action::Do::kForward, 1},
                                    {Action::Do::kOffload, 0},
                                    {Action::Do::kForward, 2},
                                    {Action::Do::kBackward, 0},
                                    {Action::Do::kFree, 2},
                                    {Action::Do::kRestore, 0},
                                    {Action::Do::kBackward, 1},
                                    {Action::Do::kFree, 1},
                                    {Action::Do::kBackward, 2},
                                    {Action::Do::kFree, 0}}};
  p.ops[2].spread = {.steps = 5, .median = 15, .quartiles = 5, .most = 20};
  const auto doubts = RankDoubts(p, offload, 10);
  ASSERT_EQ(doubts.status(), absl::OkStatus());
  // Op 2 runs beside the copy out, which is waited for.
  EXPECT_THAT(InstantsOf(*doubts), ElementsAre(5, 1, 0));
}

TEST(DoubtTest, NothingIsSaidWithoutSpreads) {
  const Plan keep = {.budget = Bytes{100}, .actions = kKeep};
  EXPECT_FALSE(KnowsSpread(ThreeOps()));
  EXPECT_TRUE(KnowsSpread(Uncertain()));
  EXPECT_THAT(*RankDoubts(ThreeOps(), keep, 10), IsEmpty());
}

TEST(DoubtTest, APlanOfAnotherProfileIsRefused) {
  const Plan other = {.budget = Bytes{100},
                      .actions = {{Action::Do::kForward, 7}}};
  EXPECT_EQ(RankDoubts(Uncertain(), other, 10).status(),
            absl::InvalidArgumentError("the plan is of another profile"));
}

TEST(DoubtTest, WhatWasSlowOnceIsAnOutlier) {
  EXPECT_THAT(Outliers(Uncertain()), ElementsAre(1));
  EXPECT_THAT(Outliers(ThreeOps()), IsEmpty());
}

}  // namespace
}  // namespace ebbtide
