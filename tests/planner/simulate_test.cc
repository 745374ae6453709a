#include "planner/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kPlenty{1000};

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(SimulateTest, KeepingAllTakesTheBaseTimeAndTheUnmanagedPeak) {
  const Profile p = ThreeOps();
  const auto simulation = Simulate(p, kKeep, kPlenty);
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->time, BaseTime(p));
  EXPECT_EQ(simulation->peak, UnmanagedPeak(p));
  EXPECT_EQ(simulation->curve,
            (std::vector<Bytes>{Bytes{5}, Bytes{13}, Bytes{15}, Bytes{15},
                                Bytes{13}, Bytes{5}, Bytes{3}}));
}

TEST(SimulateTest, TheComputeWaitsForASlowHost) {
  Profile p = ThreeOps();
  for (Op& op : p.ops) op.host_time = 25;
  for (Stage& stage : p.stages) stage.host_time = 1;
  const auto keep = Simulate(p, kKeep, kPlenty);
  ASSERT_EQ(keep.status(), absl::OkStatus());
  EXPECT_EQ(keep->time, UnmanagedTime(p));
  EXPECT_EQ(keep->starved, UnmanagedTime(p) - BaseTime(p));
  EXPECT_EQ(keep->stall, 0);
  // The host issues a recomputed op once more, while the device is behind.
  const auto recompute = Simulate(p, kRebuild, kPlenty);
  ASSERT_EQ(recompute.status(), absl::OkStatus());
  EXPECT_GT(recompute->time, keep->time);
}

TEST(SimulateTest, AHostThatIsAheadCostsItsFirstOpAlone) {
  Profile p = ThreeOps();
  for (Op& op : p.ops) op.host_time = 1;
  for (Stage& stage : p.stages) stage.host_time = 1;
  const auto simulation = Simulate(p, kRebuild, kPlenty);
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->starved, 1);
  EXPECT_EQ(simulation->time, 101);
}

TEST(SimulateTest, ARecomputeTakesItsTimeAndItsScratch) {
  const auto simulation = Simulate(ThreeOps(), kRebuild, kPlenty);
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->time, 100);
  EXPECT_EQ(simulation->curve[3], Bytes{15});
}

TEST(SimulateTest, AnOffloadLeavesWhenItsCopyEnds) {
  Profile p = ThreeOps();
  p.d2h = 1;    // 4 bytes: [20, 24), while op 2 runs in [20, 30)
  p.h2d = 0.4;  // 4 bytes: 10 after the end of stage 0 at 50
  const auto simulation = Simulate(p, kMove, kPlenty);
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->curve[2], Bytes{15});
  EXPECT_EQ(simulation->curve[3], Bytes{11});
  EXPECT_EQ(simulation->stall, 10);
  EXPECT_EQ(simulation->time, 100);
  EXPECT_THAT(simulation->departures, ElementsAre(3));
}

TEST(SimulateTest, WhatIsCopiedEarlyLeavesWhenItWasToLeave) {
  Profile p = ThreeOps();
  p.d2h = p.h2d = 1;
  const std::vector<int> late = {4};
  const auto simulation = Simulate(p, kMove, kPlenty, late);
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->curve[3], Bytes{15});
  EXPECT_THAT(simulation->departures, ElementsAre(4));
  // Short of memory, it leaves when its copy ends.
  const auto tight = Simulate(p, kMove, Bytes{13}, late);
  ASSERT_EQ(tight.status(), absl::OkStatus());
  EXPECT_THAT(tight->departures, ElementsAre(2));
}

TEST(SimulateTest, AnOpWaitsForARunningOffloadThatMakesRoom) {
  Profile p = ThreeOps();
  p.d2h = p.h2d = 1;
  // Op 2 needs 15 bytes beside a; the copy of a ends at 24.
  const auto simulation = Simulate(p, kMove, Bytes{13});
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->peak, Bytes{13});
  EXPECT_EQ(simulation->time, 90 + 4 + 4);
  EXPECT_THAT(simulation->departures, ElementsAre(2));
}

TEST(SimulateTest, APlanAboveTheBudgetNamesTheInstant) {
  const auto simulation = Simulate(ThreeOps(), kKeep, Bytes{14});
  EXPECT_EQ(simulation.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MessageOf(simulation.status()),
            "actions[2]: op 2 make_c needs 15 bytes, the budget is 14");
}

TEST(SimulateTest, WhoIsThereAtThePeak) {
  const auto kept = PeakHolders(ThreeOps(), kKeep, kPlenty);
  ASSERT_EQ(kept.status(), absl::OkStatus());
  EXPECT_THAT(*kept, ElementsAre(0, 1, 2));
  // a is still on its way out, until 60, when it is on its way back.
  Profile p = ThreeOps();
  p.d2h = p.h2d = 0.1;
  EXPECT_THAT(*PeakHolders(p, kMove, kPlenty), ElementsAre(0, 1));
  p.d2h = p.h2d = 0.2;
  EXPECT_THAT(*PeakHolders(p, kMove, kPlenty), ElementsAre(0, 1, 2));
  EXPECT_THAT(*PeakHolders(p, kMove, Bytes{13}), ElementsAre(0, 1));
  p.tail = Bytes{50};
  EXPECT_THAT(*PeakHolders(p, kKeep, kPlenty), ElementsAre());
  EXPECT_EQ(PeakHolders(p, kKeep, Bytes{14}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// The slow way: of every prefix of a plan without copies, what is there.
TEST(SimulateTest, WhoIsThereAddsUpToThePeak) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Profile p = RandomProfile(seed, 8);
    PlanOptions options = {.budget = UnmanagedPeak(p), .solver = "random"};
    options.seed = seed;
    options.allow_offload = false;
    const auto plan = MakePlan(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    const auto whole = Simulate(p, plan->actions, kPlenty);
    const auto holders = PeakHolders(p, plan->actions, kPlenty);
    ASSERT_EQ(holders.status(), absl::OkStatus());
    Bytes sum{};
    for (const int v : *holders) sum += p.values[v].bytes;
    const int ops = static_cast<int>(p.ops.size());
    const int stages = static_cast<int>(p.stages.size());
    const int k = whole->peak_action;
    Bytes other = p.tail;
    if (k < static_cast<int>(plan->actions.size())) {
      const Action& action = plan->actions[k];
      const int t = whole->peak_instant - ops;
      if (action.what == Action::Do::kForward) {
        other = p.ops[action.index].other;
      } else if (action.what == Action::Do::kBackward) {
        other = p.stages[t].during;
      } else {
        ASSERT_EQ(action.what, Action::Do::kRecompute);
        other = p.stages[t].before + p.ops[action.index].scratch;
      }
    } else {
      EXPECT_EQ(whole->peak_instant, ops + stages);
    }
    EXPECT_EQ(sum + other, whole->peak) << seed;
  }
}

TEST(SimulateTest, TheHostHasItsOwnLimit) {
  Profile p = ThreeOps();
  p.d2h = p.h2d = 1;
  p.host = Bytes{3};
  EXPECT_THAT(MessageOf(Simulate(p, kMove, kPlenty).status()),
              HasSubstr("the host would hold 4 bytes, its room is 3"));
}

}  // namespace
}  // namespace ebbtide
