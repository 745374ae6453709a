#include "planner/chain_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "tests/planner/chain_oracle.h"
#include "tests/planner/chains.h"

namespace ebbtide {
namespace {

using ::testing::HasSubstr;
using Do = ChainAction::Do;
using Item = ChainAction::Item;

// Two stages, one saved and moved to the host while the other runs.
Chain TwoStages() {
  Chain c;
  c.fw = {10, 10};
  c.bw = {20, 20, 4};
  c.x = {Bytes{1}, Bytes{2}, Bytes{2}};
  c.xb = {Bytes{1}, Bytes{6}, Bytes{5}};
  c.ft = {Bytes{0}, Bytes{1}};
  c.bt = {Bytes{0}, Bytes{1}, Bytes{0}};
  c.d2h = 1;
  c.h2d = 0.5;
  return c;
}

const std::vector<ChainAction> kKeep = {{Do::kForward, 0, 1},
                                        {Do::kForward, 1, 1},
                                        {Do::kLoss},
                                        {Do::kBackward, 1},
                                        {Do::kFree, 2, 0, Item::kXb},
                                        {Do::kBackward, 0},
                                        {Do::kFree, 1, 0, Item::kXb}};

const std::vector<ChainAction> kMove = {{Do::kForward, 0, 1},
                                        {Do::kForward, 1, 1},
                                        {Do::kOffload, 1, 0, Item::kXb},
                                        {Do::kLoss},
                                        {Do::kRestore, 1, 0, Item::kXb},
                                        {Do::kBackward, 1},
                                        {Do::kFree, 2, 0, Item::kXb},
                                        {Do::kBackward, 0},
                                        {Do::kFree, 1, 0, Item::kXb}};

TEST(ChainPlanTest, TextReadsBackBitForBit) {
  auto plan = MakeChainPlan(KnownChain("B"), Bytes{20}, "auto");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  plan->actions.push_back({Do::kOffload, 2, 0, Item::kX});
  const auto back = ChainPlanFromJson(ChainPlanToJson(*plan), "plan.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(ChainPlanToJson(*back), ChainPlanToJson(*plan));
  EXPECT_EQ(back->actions, plan->actions);
}

TEST(ChainPlanTest, AForeignPlanNeedsOnlyTheFieldsThatAreChecked) {
  const auto plan = ChainPlanFromJson(
      R"({"feasible":true,"time":64,"peak":16,"actions":[{"do":"loss"}]})",
      "plan.json");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_EQ(plan->budget, Bytes{16});
  const auto bad = ChainPlanFromJson(
      R"({"feasible":true,"time":64,"peak":16,"actions":[{"do":"free"}]})",
      "plan.json");
  EXPECT_THAT(std::string(bad.status().message()),
              HasSubstr("plan.json: actions[0].value: expected this member"));
}

TEST(ChainPlanTest, UnknownSolversAndWeightsAreRefused) {
  Chain chain = TwoStages();
  EXPECT_THAT(
      std::string(MakeChainPlan(chain, Bytes{99}, "magic").status().message()),
      HasSubstr("or keep for a chain, got magic"));
  chain.weights.push_back({{0}, Bytes{8}, Bytes{8}, Bytes{8}});
  EXPECT_THAT(
      std::string(MakeChainPlan(chain, Bytes{99}, "rotor").status().message()),
      HasSubstr("weights: expected none, or solver"));
}

TEST(ChainSimulateTest, LiveBytesIncludeInputGradientAndWorkspace) {
  const auto simulation = SimulateChain(TwoStages(), kKeep, Bytes{99});
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(simulation->time, 64);
  // Backward of stage 1: x0 + xb1 + xb2 + y2 + y1 + bt.
  EXPECT_EQ(simulation->peak, Bytes{1 + 6 + 5 + 2 + 2 + 1});
}

TEST(ChainSimulateTest, MovedBytesLeaveAtTheEndOfTheCopy) {
  const auto simulation = SimulateChain(TwoStages(), kMove, Bytes{99});
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  // Offload [20, 26); restore issued at 24, copied [26, 38).
  EXPECT_EQ(simulation->time, 38 + 20 + 20);
  EXPECT_EQ(simulation->stall, 14);
}

// The loss and a forward read what is on its way to the host, or there.
const std::vector<ChainAction> kMoveEarly = {{Do::kForward, 0, 1},
                                             {Do::kOffload, 1, 0, Item::kXb},
                                             {Do::kForward, 1, 1},
                                             {Do::kOffload, 2, 0, Item::kXb},
                                             {Do::kLoss},
                                             {Do::kRestore, 2, 0, Item::kXb},
                                             {Do::kRestore, 1, 0, Item::kXb},
                                             {Do::kBackward, 1},
                                             {Do::kFree, 2, 0, Item::kXb},
                                             {Do::kBackward, 0},
                                             {Do::kFree, 1, 0, Item::kXb}};

TEST(ChainSimulateTest, BytesStayForWhoReadsThemAfterTheOffload) {
  Chain chain = TwoStages();
  chain.h2d = 1;
  const auto simulation = SimulateChain(chain, kMoveEarly, Bytes{99});
  ASSERT_EQ(simulation.status(), absl::OkStatus());
  // Copies out [10, 16), [20, 25); back [25, 30), [30, 36).
  EXPECT_EQ(simulation->time, 36 + 20 + 20);
  // x0 and xb1, read by the forward of stage 1 that makes xb2 with its ft: the
  // copy that ended at 16 frees nothing before that forward ends at 20.
  const auto refusal = [&](int budget) {
    const auto status =
        SimulateChain(chain, kMoveEarly, Bytes{budget}).status();
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(12), "actions[2]: needs 13, the budget is 12");
  EXPECT_EQ(refusal(13), "actions[6]: needs 14, the budget is 13");
}

TEST(ChainValidateTest, AgreesWithTheSimulator) {
  for (const auto& actions : {kKeep, kMove, kMoveEarly}) {
    for (int budget = 5; budget < 25; ++budget) {
      const auto simulation =
          SimulateChain(TwoStages(), actions, Bytes{budget});
      const auto verdict = ValidateChain(TwoStages(), actions, Bytes{budget});
      ASSERT_EQ(simulation.ok(), verdict.ok()) << budget;
      if (!verdict.ok()) continue;
      EXPECT_EQ(simulation->time, verdict->time);
      EXPECT_EQ(simulation->peak, verdict->peak);
    }
  }
}

// Every plan with one action dropped or moved to any earlier place.
std::vector<std::vector<ChainAction>> Mutants(
    const std::vector<ChainAction>& actions) {
  std::vector<std::vector<ChainAction>> mutants;
  for (size_t k = 0; k < actions.size(); ++k) {
    auto without = actions;
    without.erase(without.begin() + k);
    mutants.push_back(without);
    for (size_t place = 0; place < k; ++place) {
      auto moved = without;
      moved.insert(moved.begin() + place, actions[k]);
      mutants.push_back(moved);
    }
  }
  return mutants;
}

void ExpectOnlyThePlanItselfIsValid(const Chain& chain, const ChainPlan& plan) {
  EXPECT_EQ(ValidateChainPlan(chain, plan), absl::OkStatus());
  for (const auto& mutant : Mutants(plan.actions)) {
    if (mutant == plan.actions) continue;
    // Room for everything: what refuses the mutant is its order.
    EXPECT_FALSE(ValidateChain(chain, mutant, Bytes{1 << 20}).ok());
  }
}

TEST(ChainValidateTest, EveryKnownPlanIsRefusedWithAnActionDroppedOrMoved) {
  int plans = 0;
  for (const KnownTime& known : KnownTimes("rotor")) {
    if (!known.feasible) continue;
    const auto plan = MakeChainPlan(known.chain, known.budget, "rotor");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    ExpectOnlyThePlanItselfIsValid(known.chain, *plan);
    ++plans;
  }
  EXPECT_EQ(plans, 10);
}

TEST(ChainValidateTest, RandomPlansAreRefusedWithAnActionDroppedOrMoved) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Chain chain = RandomChain(seed, 2 + seed % 6, seed % 2 == 1);
    const auto tight = MakeChainPlan(chain, Bytes{1}, "rotor");
    ASSERT_EQ(tight.status(), absl::OkStatus());
    for (int extra : {0, 3, 8, 99}) {
      const auto plan =
          MakeChainPlan(chain, tight->least_budget + Bytes{extra}, "rotor");
      ASSERT_EQ(plan.status(), absl::OkStatus());
      ExpectOnlyThePlanItselfIsValid(chain, *plan);
    }
  }
}

TEST(ChainValidateTest, NamesTheRuleThatIsBroken) {
  const auto refusal = [](const std::vector<ChainAction>& actions) {
    const auto verdict = ValidateChain(TwoStages(), actions, Bytes{17});
    return std::string(verdict.status().message());
  };
  EXPECT_EQ(refusal(kKeep), "");
  auto late = kKeep;
  std::swap(late[4], late[5]);
  EXPECT_EQ(refusal(late),
            "actions[5]: xb[2] is not freed directly after its last use");
  auto left = kKeep;
  left.pop_back();
  EXPECT_EQ(refusal(left), "actions[6]: xb[1] is left over");
  auto twice = kKeep;
  twice.push_back({Do::kFree, 1, 0, Item::kXb});
  EXPECT_EQ(refusal(twice), "actions[7]: xb[1] is not on the device");
  auto input = kKeep;
  input.push_back({Do::kFree, 0, 0, Item::kX});
  EXPECT_EQ(refusal(input), "actions[7]: expected a stage from 1 to 2, got 0");
}

}  // namespace
}  // namespace ebbtide
