#include "planner/placed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "planner/place.h"
#include "planner/place_bound.h"
#include "planner/place_validate.h"
#include "planner/simulate.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr Bytes kPlenty{int64_t{1} << 50};

std::vector<int64_t> Numbers(const Buffer& buffer) {
  return {Count(buffer.size), buffer.live.begin[0], buffer.live.end[0]};
}

TEST(PlacedPlanTest, AValueIsThereFromItsOpToItsFree) {
  const PlanLayout layout = LayoutOf(ThreeOps(), kKeep, {});
  // Stages have nothing else before they begin.
  EXPECT_EQ(layout.stays, Bytes{0});
  std::vector<std::vector<int64_t>> values;
  for (const Buffer& buffer : layout.problem.buffers) {
    if (Count(buffer.size) > 1 && buffer.size != Bytes{3}) {
      values.push_back(Numbers(buffer));
    }
  }
  EXPECT_THAT(values, ElementsAre(ElementsAre(2, 2, 4), ElementsAre(8, 1, 6),
                                  ElementsAre(4, 0, 8)));
}

// A stage takes 20 bytes beside values of at most 8: nobody asks for 20 at
// once.
TEST(PlacedPlanTest, OtherBytesAreBlocksNoLargerThanTheLargestValue) {
  Profile p = ThreeOps();
  p.stages[1].during = Bytes{20};
  const PlanLayout layout = LayoutOf(p, kKeep, {});
  std::vector<std::vector<int64_t>> others;
  for (const Buffer& buffer : layout.problem.buffers) {
    if (buffer.live.begin[0] == 5 && buffer.live.end[0] == 6) {
      others.push_back(Numbers(buffer));
    }
  }
  EXPECT_THAT(others, ElementsAre(ElementsAre(8, 5, 6), ElementsAre(8, 5, 6),
                                  ElementsAre(4, 5, 6)));
}

// The simulator counts bytes in its own way.
TEST(PlacedPlanTest, AsManyBytesAreAliveAtOnceAsTheSimulatorSays) {
  int offloading = 0;
  for (int seed = 1; seed <= 300; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 14, seed % 3 > 0);
    const auto plan = MakePlan(
        p, {.budget = Bytes{1}, .solver = "random", .seed = uint64_t(seed)});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto simulation = Simulate(p, plan->actions, kPlenty);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    const PlanLayout layout =
        LayoutOf(p, plan->actions, simulation->departures);
    const Bytes alive = layout.stays + LowerBound(layout.problem).bytes;
    if (Contains(*plan, Action::Do::kOffload)) {
      // Bytes may leave while actions of an instant are on their way.
      EXPECT_LE(alive, simulation->peak) << seed;
      ++offloading;
    } else {
      EXPECT_EQ(alive, simulation->peak) << seed;
    }
  }
  EXPECT_GT(offloading, 50);
}

// Found among random ones: its first plan takes more addresses than bytes.
TEST(PlacedPlanTest, WhatAPlacementIsTooHighGoesBackToTheSolver) {
  const Profile p = RandomProfile(528, 6 + 528 % 14);
  const Bytes budget{50};
  const PlanOptions options = {.budget = budget, .evaluations = 300};
  std::vector<Bytes> asked;
  std::vector<Bytes> heights;
  const auto solve = [&](const Profile& profile, const PlanOptions& now) {
    asked.push_back(now.budget);
    auto plan = MakePlan(profile, now);
    EXPECT_TRUE(plan.ok() && plan->feasible);
    const auto simulation = Simulate(profile, plan->actions, kPlenty);
    const PlanLayout layout =
        LayoutOf(profile, plan->actions, simulation->departures);
    const auto placed =
        Place(layout.problem, {.nodes = 1, .enough = budget - layout.stays});
    EXPECT_TRUE(ValidatePlacement(layout.problem, placed->placement).ok());
    heights.push_back(layout.stays + placed->placement.height);
    EXPECT_LE(plan->peak, budget);
    return plan;
  };
  const auto placed = MakePlacedPlan(p, options, budget, solve);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->rounds, 2);
  ASSERT_THAT(heights, SizeIs(2));
  EXPECT_GT(heights[0], budget);
  EXPECT_LE(heights[1], budget);
  EXPECT_LE(placed->height, budget);
  // From what the first plan takes, by what it is too high.
  EXPECT_LE(asked[1], asked[0] - (heights[0] - budget));
}

TEST(PlacedPlanTest, WithoutAPlanThatFitsTheLowestIsTheResult) {
  Profile p = ThreeOps();
  p.stages[0].needs = {2};
  p.stages[0].during = Bytes{9};
  using Do = Action::Do;
  const std::vector<Action> away = {
      {Do::kForward, 0},   {Do::kForward, 1},  {Do::kForward, 2},
      {Do::kFree, 1},      {Do::kBackward, 0}, {Do::kFree, 2},
      {Do::kRecompute, 1}, {Do::kBackward, 1}, {Do::kFree, 1},
      {Do::kBackward, 2},  {Do::kFree, 0}};
  int rounds = 0;
  const auto solve = [&](const Profile&, const PlanOptions& now) {
    Plan plan;
    plan.budget = kPlenty;
    plan.actions = ++rounds == 2 ? away : kKeep;
    plan.feasible = rounds < 4;
    plan.peak = now.budget;
    return absl::StatusOr<Plan>(plan);
  };
  const auto placed = MakePlacedPlan(p, {.budget = Bytes{10}}, Bytes{1}, solve);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(rounds, 4);
  EXPECT_EQ(placed->plan.actions, away);
  EXPECT_EQ(placed->height, Bytes{15});
}

}  // namespace
}  // namespace ebbtide
