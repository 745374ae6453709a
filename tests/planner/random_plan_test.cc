#include "planner/random_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/simulate.h"
#include "planner/validate.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

constexpr Bytes kPlenty{int64_t{1} << 50};

PlanOptions Random(uint64_t seed) {
  return {.budget = Bytes{1}, .solver = "random", .seed = seed};
}

// Actions of a plan that the plans of solvers never have.
struct Habits {
  int freed_later = 0;     // than at the release, in forward
  int offloaded_late = 0;  // in the backward pass
  int moved_twice = 0;
  int restored_early = 0;  // before a stage that has no use for it
  int rebuilt_twice = 0;   // before the same stage
  int rebuilt_early = 0;

  void Add(const Profile& p, const std::vector<Action>& actions) {
    int next = 0;
    const int ops = p.ops.size();
    std::map<int, int> moves;
    std::set<int> again;
    for (const Action& a : actions) {
      const bool is_stage = next >= ops && next < ops + Stages(p);
      const auto needed = [&](int v) {
        const auto& needs = p.stages[next - ops].needs;
        return std::find(needs.begin(), needs.end(), v) != needs.end();
      };
      switch (a.what) {
        case Do::kForward:
        case Do::kBackward:
          ++next;
          again.clear();
          break;
        case Do::kFree:
          freed_later += next < ops && p.values[a.index].released < next - 1;
          break;
        case Do::kOffload:
          offloaded_late += next > ops;
          moved_twice += ++moves[a.index] == 2;
          break;
        case Do::kRestore:
          restored_early += is_stage && !needed(a.index);
          break;
        case Do::kRecompute:
          rebuilt_twice += !again.insert(a.index).second;
          rebuilt_early += is_stage && !needed(p.ops[a.index].outputs[0]);
          break;
      }
    }
  }
  static int Stages(const Profile& p) { return p.stages.size(); }
};

TEST(RandomPlanTest, EveryPlanIsAcceptedAndSimulatorAndValidatorAgree) {
  Habits habits;
  int plans = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Profile p = RandomProfile(seed, 2 + seed % 14, seed % 3 > 0);
    if (seed % 5 == 0) p.host = Bytes{seed % 16};
    if (seed % 7 == 0) p.values[seed % p.values.size()].retainable = false;
    const auto plan = MakePlan(p, Random(seed));
    // A need can be neither kept nor recomputed.
    if (!CompileGraph(p, true).ok()) continue;
    ASSERT_EQ(plan.status(), absl::OkStatus()) << seed;
    ++plans;
    EXPECT_TRUE(plan->feasible);
    EXPECT_EQ(plan->budget, plan->peak);
    const auto verdict = Validate(p, plan->actions, plan->budget);
    ASSERT_EQ(verdict.status(), absl::OkStatus()) << seed;
    const auto simulation = Simulate(p, plan->actions, kPlenty);
    ASSERT_EQ(simulation.status(), absl::OkStatus()) << seed;
    EXPECT_EQ(simulation->time, verdict->time) << seed;
    EXPECT_EQ(simulation->peak, verdict->peak) << seed;
    habits.Add(p, plan->actions);
  }
  EXPECT_GT(plans, 3800);
  EXPECT_GT(habits.freed_later, 500);
  EXPECT_GT(habits.offloaded_late, 500);
  EXPECT_GT(habits.moved_twice, 200);
  EXPECT_GT(habits.restored_early, 500);
  EXPECT_GT(habits.rebuilt_twice, 200);
  EXPECT_GT(habits.rebuilt_early, 500);
}

TEST(RandomPlanTest, ASeedIsAPlan) {
  const Profile p = RandomProfile(7, 12, true);
  std::set<std::string> plans;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto plan = MakePlan(p, Random(seed));
    ASSERT_EQ(plan.status(), absl::OkStatus());
    const auto again = MakePlan(p, Random(seed));
    ASSERT_EQ(again.status(), absl::OkStatus());
    EXPECT_EQ(plan->actions, again->actions);
    Plan bare;
    bare.actions = plan->actions;
    plans.insert(PlanToJson(bare));
  }
  EXPECT_GT(plans.size(), 15u);
}

TEST(RandomPlanTest, WhatIsForbiddenIsNotDone) {
  int rebuilds = 0;
  int moves = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Profile p = RandomProfile(seed, 12, true);
    PlanOptions still = Random(seed);
    still.allow_offload = false;
    const auto in_place = MakePlan(p, still);
    ASSERT_EQ(in_place.status(), absl::OkStatus()) << seed;
    EXPECT_FALSE(Contains(*in_place, Do::kOffload)) << seed;
    rebuilds += Contains(*in_place, Do::kRecompute);
    PlanOptions once = Random(seed);
    once.allow_recompute = false;
    const auto moving = MakePlan(p, once);
    ASSERT_EQ(moving.status(), absl::OkStatus()) << seed;
    EXPECT_FALSE(Contains(*moving, Do::kRecompute)) << seed;
    moves += Contains(*moving, Do::kOffload);
  }
  EXPECT_GT(rebuilds, 100);
  EXPECT_GT(moves, 100);
}

}  // namespace
}  // namespace ebbtide
