#include "planner/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/simulate.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

constexpr Bytes kPlenty{1000};

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

std::string Refusal(const Profile& p, const std::vector<Action>& actions,
                    Bytes budget = kPlenty) {
  return MessageOf(Validate(p, actions, budget).status());
}

TEST(ValidateTest, AgreesWithTheSimulator) {
  Profile p = ThreeOps();
  p.d2h = 0.7;
  p.h2d = 0.3;
  for (const int host_time : {0, 7, 25}) {
    for (Op& op : p.ops) op.host_time = host_time;
    p.stages[1].host_time = host_time;
    for (const auto& actions : {kKeep, kRebuild, kMove}) {
      for (int budget = 1; budget < 20; ++budget) {
        const auto simulation = Simulate(p, actions, Bytes{budget});
        const auto verdict = Validate(p, actions, Bytes{budget});
        ASSERT_EQ(simulation.ok(), verdict.ok()) << budget;
        if (!verdict.ok()) continue;
        EXPECT_EQ(simulation->time, verdict->time);
        EXPECT_EQ(simulation->peak, verdict->peak);
      }
    }
  }
}

TEST(ValidateTest, EveryDroppedActionIsNoticed) {
  Profile p = ThreeOps();
  p.d2h = p.h2d = 1;
  for (const auto& actions : {kKeep, kRebuild, kMove}) {
    for (size_t k = 0; k < actions.size(); ++k) {
      auto fewer = actions;
      fewer.erase(fewer.begin() + k);
      EXPECT_FALSE(Validate(p, fewer, kPlenty).ok()) << k;
    }
  }
}

TEST(ValidateTest, NamesTheRuleThatIsBroken) {
  Profile p = ThreeOps();
  p.d2h = p.h2d = 1;
  EXPECT_EQ(Refusal(p, kKeep, Bytes{14}),
            "actions[2]: needs 15 bytes, the budget is 14");
  auto early = kRebuild;
  std::swap(early[2], early[3]);  // free b before op 2 has read it
  EXPECT_EQ(Refusal(p, early),
            "actions[2]: value 1 is released at instant 2 only");
  p.ops[1].replayable = false;
  EXPECT_EQ(Refusal(p, kRebuild), "actions[4]: op 1 is not replayable");
  p.host = Bytes{3};
  EXPECT_EQ(Refusal(p, kMove),
            "actions[2]: the host would hold 4 bytes, its room is 3");
  p.values[0].movable = false;
  EXPECT_EQ(Refusal(p, kMove), "actions[2]: value 0 is not movable");
  p.values[0].retainable = false;
  EXPECT_EQ(Refusal(p, kKeep),
            "actions[0]: value 0 is kept across the loss but not retainable");
}

TEST(ValidateTest, RefusesAPlanThatClaimsAnotherTimeOrPeak) {
  Plan plan;
  plan.budget = kPlenty;
  plan.feasible = true;
  plan.time = 90;
  plan.peak = Bytes{15};
  plan.actions = kKeep;
  EXPECT_EQ(ValidatePlan(ThreeOps(), plan), absl::OkStatus());
  plan.time = 89;
  EXPECT_EQ(MessageOf(ValidatePlan(ThreeOps(), plan)),
            "time: expected 90, the plan says 89");
  plan.time = 90;
  plan.peak = Bytes{14};
  EXPECT_EQ(MessageOf(ValidatePlan(ThreeOps(), plan)),
            "peak: expected 15, the plan says 14");
}

TEST(ValidateTest, AValueThatTheScriptHoldsIsThereWithoutBeingCounted) {
  Profile p = ThreeOps();
  p.values[0].saved = p.values[0].retainable = p.values[0].movable = false;
  p.values[0].released = 4;  // until the end of stage 1
  p.stages[2].needs = {};
  const std::vector<Action> actions = {{Do::kForward, 0}, {Do::kForward, 1},
                                       {Do::kForward, 2}, {Do::kBackward, 0},
                                       {Do::kFree, 2},    {Do::kBackward, 1},
                                       {Do::kFree, 1},    {Do::kBackward, 2}};
  const auto verdict = Validate(p, actions, kPlenty);
  ASSERT_EQ(verdict.status(), absl::OkStatus());
  EXPECT_EQ(verdict->peak, Bytes{11});
  EXPECT_EQ(Simulate(p, actions, kPlenty)->peak, Bytes{11});
  p.stages[2].needs = {0};
  EXPECT_EQ(Refusal(p, actions), "actions[7]: value 0 is not on the device");
}

}  // namespace
}  // namespace ebbtide
