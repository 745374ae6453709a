#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "planner/chain_plan.h"
#include "planner/cycle_search.h"
#include "planner/ilp/cycle_bound.h"
#include "tests/planner/random_walk.h"
#include "tests/planner/weight_chains.h"

namespace ebbtide {
namespace {

// Relative accuracy of HiGHS's optimum.
constexpr double kDigits = 1e-7;

Time OpTime(const Cycle& cycle) {
  Time sum = 0;
  for (const CycleOp& op : cycle.ops) sum += op.time;
  return sum;
}

TEST(CycleBoundTest, IsTheTimeOfTheLaneWhereAllBytesMove) {
  Chain c;
  c.fw = {1, 1};
  c.bw = {1, 1, 0};
  c.x = c.xb = {Bytes{0}, Bytes{0}, Bytes{0}};
  c.ft = {Bytes{0}, Bytes{0}};
  c.bt = {Bytes{0}, Bytes{0}, Bytes{0}};
  c.d2h = c.h2d = 1;
  c.weights = {{{0}, Bytes{10}}, {{1}, Bytes{10}}};
  const Cycle cycle = KeptCycle(c);
  const auto all = BoundCycle(cycle, Bytes{20});
  ASSERT_EQ(all.status(), absl::OkStatus());
  EXPECT_NEAR(all->time, 4, kDigits);
  // One at a time: the other's 10 bytes come in the waits before the second
  // forward and before the last backward, where nothing has room beside an op.
  const auto one = BoundCycle(cycle, Bytes{10});
  ASSERT_EQ(one.status(), absl::OkStatus());
  EXPECT_NEAR(one->time, 4 + 2 * 10, kDigits);
  // Half of the other stays.
  const auto half = BoundCycle(cycle, Bytes{15});
  ASSERT_EQ(half.status(), absl::OkStatus());
  EXPECT_NEAR(half->time, 4 + 2 * 5, kDigits);
  const auto none = BoundCycle(cycle, Bytes{9});
  ASSERT_EQ(none.status(), absl::OkStatus());
  EXPECT_FALSE(none->feasible);
}

struct Gaps {
  int cases = 0;
  double sum = 0;
  double worst = 0;
};

void Compare(uint32_t seed, WeightKinds kinds, Gaps* gaps) {
  const Cycle cycle = KeptCycle(WeightChain(seed, 4 + seed % 9, kinds));
  const auto live = LeastLive(cycle, StayingPlan(cycle));
  const int64_t most = Count(*std::max_element(live.begin(), live.end()));
  const int64_t least = Count(LeastCycleBudget(cycle));
  const Bytes budget{least + (most - least) * (1 + seed % 17) / 20};
  const auto bound = BoundCycle(cycle, budget);
  ASSERT_EQ(bound.status(), absl::OkStatus());
  const CycleSolution found = SolveCycle(cycle, budget, {});
  ASSERT_TRUE(bound->feasible) << seed;
  ASSERT_TRUE(found.simulation.fits) << seed;
  EXPECT_GE(bound->time, OpTime(cycle) * (1 - kDigits));
  EXPECT_GE(found.simulation.time, bound->time * (1 - kDigits)) << seed;
  const double gap = found.simulation.time / bound->time - 1;
  ++gaps->cases;
  gaps->sum += gap;
  gaps->worst = std::max(gaps->worst, gap);
}

void ExpectSmall(const char* name, const Gaps& gaps) {
  const double mean = gaps.sum / gaps.cases;
  std::printf("%s: %d cases, %.2f %% above the bound on the mean, worst %.1f\n",
              name, gaps.cases, 100 * mean, 100 * gaps.worst);
  EXPECT_LE(mean, 0.05);
}

TEST(CycleBoundTest, PlansForRandomChainsAreWithinFivePerCentOnTheMean) {
  Gaps gaps;
  for (uint32_t seed = 0; seed < Often(40, 200); ++seed) {
    Compare(seed, {.shared = seed % 2 == 0}, &gaps);
  }
  ExpectSmall("on the device", gaps);
}

TEST(CycleBoundTest, AlsoWhereTheHostMayUpdate) {
  Gaps gaps;
  for (uint32_t seed = 0; seed < Often(40, 200); ++seed) {
    Compare(seed, {.shared = seed % 2 == 0, .host_update = true}, &gaps);
  }
  ExpectSmall("with the host", gaps);
}

TEST(CycleBoundTest, NoJointPlanIsFasterThanItsWeightsAlone) {
  for (uint32_t seed = 0; seed < Often(15, 100); ++seed) {
    const Chain chain = WeightChain(seed, 3 + seed % 5);
    const auto all = MakeChainPlan(chain, Bytes{1 << 20}, "joint");
    ASSERT_EQ(all.status(), absl::OkStatus());
    const Bytes budget = all->least_budget + Bytes{seed % 20};
    const auto plan = MakeChainPlan(chain, budget, "joint");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    ASSERT_TRUE(plan->feasible) << seed;
    const auto bound = BoundWeights(chain, budget, /*values_free=*/true,
                                    absl::InfiniteDuration());
    ASSERT_EQ(bound.status(), absl::OkStatus());
    EXPECT_TRUE(bound->feasible) << seed;
    EXPECT_GE(plan->time, bound->time * (1 - kDigits)) << seed;
  }
}

// There is a plan if and only if the program has a solution.
TEST(CycleBoundTest, HasASolutionFromTheLeastBudgetOn) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Cycle cycle = KeptCycle(WeightChain(seed, 5, {.shared = true}));
    const Bytes least = LeastCycleBudget(cycle);
    const auto at = BoundCycle(cycle, least);
    ASSERT_EQ(at.status(), absl::OkStatus());
    EXPECT_TRUE(at->feasible) << seed;
    const auto below = BoundCycle(cycle, least - Bytes{1});
    ASSERT_EQ(below.status(), absl::OkStatus());
    EXPECT_FALSE(below->feasible) << seed;
  }
}

}  // namespace
}  // namespace ebbtide
