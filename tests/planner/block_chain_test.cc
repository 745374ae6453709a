#include "planner/block_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/block_solver.h"
#include "planner/chain_simulate.h"
#include "planner/evaluator.h"
#include "planner/plan.h"
#include "planner/validate.h"
#include "tests/planner/graph_oracle.h"
#include "tests/planner/networks.h"
#include "tests/planner/profiles.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kSolvers[] = {"rotor",    "floating",
                                    "unpinned", "unpinned-floating",
                                    "rockmate", "rockmate-unpinned"};
constexpr Bytes kNoBudget{int64_t{1} << 60};

// Blocks of two ops between residual values: nothing but x separates them.
Profile Residual(const std::vector<int>& times, const std::vector<int>& bytes) {
  NetworkBuilder n;
  int x = n.Add("first", 1, 40, {}, {}, true);
  for (size_t k = 0; k + 1 < times.size(); k += 2) {
    const int a = n.Add("a", times[k], bytes[k], {x}, {x}, true);
    x = n.Add("c", times[k + 1], bytes[k + 1], {a, x}, {a}, true);
  }
  return n.Finish();
}

std::vector<int> Numbers(std::mt19937* rng, int count, int low, int high) {
  std::vector<int> numbers;
  for (int k = 0; k < count; ++k) {
    numbers.push_back(low + static_cast<int>((*rng)() % (high - low + 1)));
  }
  return numbers;
}

std::vector<int> OpsOf(const std::vector<Border>& borders) {
  std::vector<int> ops;
  for (const Border& border : borders) ops.push_back(border.op);
  return ops;
}

std::vector<Border> SeparatorsOf(const Profile& p) {
  const auto graph = CompileGraph(p, true);
  EXPECT_EQ(graph.status(), absl::OkStatus());
  return Separators(*graph, Uses(*graph, 0));
}

PlanOptions Within(const char* solver, int64_t budget) {
  PlanOptions options;
  options.solver = solver;
  options.budget = Bytes{budget};
  options.time_limit = absl::Seconds(60);
  options.evaluations = 2000;
  return options;
}

TEST(SeparatorsTest, AreWhereOneValueCrosses) {
  const auto borders = SeparatorsOf(Residual({5, 5, 5, 5}, {40, 40, 40, 40}));
  EXPECT_THAT(OpsOf(borders), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(borders[0].values, IsEmpty());
  EXPECT_THAT(borders[1].values, ElementsAre(0));
  EXPECT_THAT(borders[2].values, ElementsAre(2));
  EXPECT_THAT(borders[3].values, IsEmpty());
}

// A mask that every block reads.
Profile Masked(double bytes) {
  NetworkBuilder n;
  const int mask = n.Add("mask", 1, bytes, {}, {}, false);
  int x = n.Add("first", 1, 1000, {}, {}, true);
  for (int k = 0; k < 3; ++k) {
    const int a = n.Add("a", 5, 1000, {x, mask}, {x, mask}, true);
    x = n.Add("c", 5, 1000, {a, x}, {a}, true);
  }
  return n.Finish();
}

TEST(SeparatorsTest, SmallValuesThatManyReadDoNotJoinBlocks) {
  const auto borders = SeparatorsOf(Masked(50));
  EXPECT_THAT(OpsOf(borders), ElementsAre(0, 1, 2, 4, 6, 8));
  EXPECT_THAT(borders[3].values, ElementsAre(0, 3));
  EXPECT_THAT(OpsOf(SeparatorsOf(Masked(60))), ElementsAre(0, 1, 8));
}

TEST(SeparatorsTest, ALongSkipMakesOneBlock) {
  NetworkBuilder n;
  const int first = n.Add("first", 1, 40, {}, {}, true);
  int x = first;
  for (int k = 0; k < 6; ++k) x = n.Add("next", 5, 40, {x}, {x}, true);
  const int sum = n.Add("sum", 5, 40, {x, first}, {}, true);
  n.Add("last", 5, 40, {sum}, {sum}, true);
  EXPECT_THAT(OpsOf(SeparatorsOf(n.Finish())), ElementsAre(0, 1, 8, 9));
}

TEST(SeparatorsTest, AnOpWhoseValueNobodyUsesIsNoBlock) {
  NetworkBuilder n;
  int x = n.Add("first", 1, 40, {}, {}, true);
  n.Add("metric", 1, 4, {x}, {});
  x = n.Add("next", 5, 40, {x}, {x}, true);
  n.Add("last", 5, 40, {x}, {x}, true);
  EXPECT_THAT(OpsOf(SeparatorsOf(n.Finish())), ElementsAre(0, 1, 3, 4));
}

TEST(SeparatorsTest, AreNoMoreThanAChainMayHave) {
  NetworkBuilder n;
  int x = n.Add("first", 10, 8, {}, {}, true);
  for (int k = 0; k < 1000; ++k)
    x = n.Add("next", 10, 8 + k % 7, {x}, {x}, true);
  EXPECT_THAT(SeparatorsOf(n.Finish()), SizeIs(kMostBlocks + 1));
}

TEST(BlockChainTest, EqualBlocksAreSolvedOnce) {
  const Profile p = ResearchGraph("gpts", 24);
  const auto graph = CompileGraph(p, true);
  const BlockChain blocks(*graph, {}, /*with_options=*/true,
                          {.evaluations = 500});
  EXPECT_GT(Stages(blocks.chain()), 24);
  EXPECT_LE(blocks.menus(), 8);
  EXPECT_EQ(CheckChain(blocks.chain()), absl::OkStatus());
  EXPECT_EQ(BaseTime(blocks.chain()), BaseTime(p));
  EXPECT_GT(blocks.chain().options.size(), 24);
}

std::vector<int64_t> Counts(const std::vector<Bytes>& sizes) {
  std::vector<int64_t> counts;
  for (Bytes size : sizes) counts.push_back(Count(size));
  return counts;
}

TEST(BlockChainTest, StagesHaveTheBytesOfTheirBlocks) {
  const Profile p = Residual({5, 5, 5, 5}, {30, 40, 20, 40});
  const auto graph = CompileGraph(p, true);
  const Chain chain = BlockChain(*graph, {}, false, {}).chain();
  EXPECT_THAT(Counts(chain.x), ElementsAre(0, 40, 40, 0));
  EXPECT_THAT(Counts(chain.xb), ElementsAre(0, 40, 70, 60));
  // The inner value, where it is not saved; in the last block both values, and
  // the gradient of what it makes.
  EXPECT_THAT(Counts(chain.ft), ElementsAre(0, 30, 100));
}

TEST(BlockChainTest, WhatOnlyPassesAStageIsSavedWithIt) {
  const Profile p = Masked(50);
  const auto graph = CompileGraph(p, true);
  const Chain chain = BlockChain(*graph, {}, false, {}).chain();
  EXPECT_THAT(Counts(chain.x), ElementsAre(0, 50, 1050, 1050, 1050, 0));
  EXPECT_THAT(Counts(chain.xb), ElementsAre(0, 50, 1050, 2050, 2050, 2000));
}

// Blocks whose first value is large, not saved and has two readers, each saved.
// No op of the forward reads b: where it is not made with the rest of its
// block, d stays for it. Ops that a block does without where it is run only for
// what follows, or only for itself, take no time.
Profile Forked(const std::vector<int>& times) {
  NetworkBuilder n;
  int x = n.Add("first", 1, 40, {}, {}, true);
  for (int time : times) {
    const int d = n.Add("d", time, 90, {x}, {x + 2});  // a
    const int a = n.Add("a", 2, 30, {d}, {}, true);
    const int b = n.Add("b", 0, 30, {d}, {}, true);
    x = n.Add("c", 0, 40, {a, x}, {a, b});
  }
  n.Add("last", 1, 1, {x}, {x});
  return n.Finish();
}

// The chain's times are those of the graph, whatever is kept, and its bytes are
// no fewer.
TEST(BlockChainTest, DraftsTakeTheTimeOfTheirPlans) {
  std::mt19937 rng(3);
  int plans = 0;
  for (int round = 0; round < 12; ++round) {
    const Profile p = round % 3 == 0 ? Forked(Numbers(&rng, 6, 5, 9))
                                     : Residual(Numbers(&rng, 12, 1, 9),
                                                Numbers(&rng, 12, 20, 60));
    const auto graph = CompileGraph(p, true);
    Evaluator evaluator(*graph);
    Evaluation result;
    for (const char* solver : {"rotor", "floating", "unpinned"}) {
      const ChainSolver kind = *ParseChainSolver(solver);
      const BlockChain blocks(*graph, kind, /*with_options=*/false, {});
      const auto table =
          MakeChainTable(UsualSlotChain(blocks.chain(), kind), kind);
      for (const CurvePoint& point : table->Curve()) {
        const auto actions = table->PlanAt(point.budget);
        const auto chain = SimulateChain(blocks.chain(), actions, kNoBudget);
        ASSERT_EQ(chain.status(), absl::OkStatus());
        evaluator.Evaluate(blocks.DraftOf(actions), &result);
        ASSERT_FALSE(result.broken);
        EXPECT_EQ(BaseTime(p) + result.overhead, chain->time)
            << round << " " << solver << " " << Count(point.budget);
        EXPECT_LE(result.peak, blocks.base() + Count(chain->peak));
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, 200);
}

TEST(BlockChainTest, PlansAreValidAndNeverBelowTheExhaustiveSearch) {
  int plans = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 6);
    const int64_t budget =
        Count(UnmanagedPeak(p)) * (70 + 5 * (seed % 7)) / 100;
    const Time least =
        GraphOracle(p, Bytes{std::max<int64_t>(1, budget)}).LeastTime();
    for (const char* solver : kSolvers) {
      const auto plan =
          MakePlan(p, Within(solver, std::max<int64_t>(1, budget)));
      ASSERT_EQ(plan.status(), absl::OkStatus()) << seed << " " << solver;
      EXPECT_EQ(plan->solver, solver);
      EXPECT_LE(plan->lower_bound_time, least);
      if (!plan->feasible) continue;
      EXPECT_GE(plan->time, least) << seed << " " << solver;
      EXPECT_LE(plan->peak, plan->budget);
      EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
      ++plans;
    }
  }
  EXPECT_GT(plans, 120);
}

Time OverheadOf(const Profile& p, const char* solver, int percent) {
  const auto plan = MakePlan(p, Within(solver, KeepPeak(p) * percent / 100));
  EXPECT_EQ(plan.status(), absl::OkStatus());
  EXPECT_TRUE(plan->feasible) << solver;
  EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
  return plan->time / BaseTime(p) - 1;
}

TEST(BlockChainTest, EachKindBringsATransformerIntoHalfItsBytes) {
  const Profile p = ResearchGraph("gpts", 12);
  const Time rotor = OverheadOf(p, "rotor", 50);
  const Time rockmate = OverheadOf(p, "rockmate", 50);
  EXPECT_LT(rotor, 0.25);
  EXPECT_LE(OverheadOf(p, "unpinned", 50), rotor);
  // Options are worth far more (planner/block_chain.h).
  EXPECT_LT(rockmate, 0.75 * rotor);
  EXPECT_LE(OverheadOf(p, "rockmate-unpinned", 50), rockmate);
}

TEST(BlockChainTest, TheSameSeedGivesTheSamePlan) {
  const Profile p = ResearchGraph("encdec", 2);
  const PlanOptions options = Within("rockmate", KeepPeak(p) * 60 / 100);
  const auto one = MakePlan(p, options);
  const auto two = MakePlan(p, options);
  ASSERT_EQ(one.status(), absl::OkStatus());
  EXPECT_TRUE(one->feasible);
  EXPECT_EQ(one->actions, two->actions);
}

TEST(BlockChainTest, SaysWhatWouldDoWhereNothingFits) {
  const Profile p = ResearchGraph("gpts", 4);
  const auto plan = MakePlan(p, Within("rockmate", KeepPeak(p) / 100));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_FALSE(plan->feasible);
  const auto within =
      MakePlan(p, Within("rockmate", Count(plan->least_budget)));
  EXPECT_TRUE(within->feasible);
}

TEST(BlockChainTest, PlansGraphsOfNoOpAndOfOne) {
  for (const char* solver : kSolvers) {
    const auto empty = MakePlan(Profile(), Within(solver, 1));
    ASSERT_EQ(empty.status(), absl::OkStatus());
    EXPECT_TRUE(empty->feasible);
    NetworkBuilder n;
    n.Add("only", 1, 8, {}, {}, true);
    const Profile one = n.Finish();
    const auto plan = MakePlan(one, Within(solver, KeepPeak(one)));
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_TRUE(plan->feasible);
    EXPECT_EQ(plan->time, BaseTime(one));
  }
}

TEST(BlockChainTest, RefusesMoreBlocksThanTheSolverTakes) {
  NetworkBuilder n;
  int x = n.Add("first", 10, 8, {}, {}, true);
  for (int k = 0; k < 300; ++k) x = n.Add("next", 10, 8, {x}, {x}, true);
  const auto plan = MakePlan(n.Finish(), Within("unpinned-floating", 500));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()),
              HasSubstr("too long for this solver"));
}

}  // namespace
}  // namespace ebbtide
