#include "planner/chain_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/chain_plan.h"
#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "tests/planner/chain_oracle.h"
#include "tests/planner/chains.h"

namespace ebbtide {
namespace {

constexpr ChainSolver kRotor;

std::unique_ptr<ChainTable> Table(const Chain& chain, Bytes most) {
  return MakeChainTable(CountSlots(chain, most, 1000, Rounding::kUp), kRotor);
}

TEST(RotorTest, KnownChainsTakeTheirKnownTimes) {
  const auto known = KnownTimes("rotor");
  ASSERT_EQ(known.size(), 13u);
  for (const KnownTime& k : known) {
    const auto plan = MakeChainPlan(k.chain, k.budget, "rotor");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_EQ(plan->feasible, k.feasible) << k.name << Count(k.budget);
    EXPECT_EQ(plan->time, k.time) << k.name << Count(k.budget);
    EXPECT_LE(plan->peak, k.budget) << k.name << Count(k.budget);
    if (!k.feasible) {
      EXPECT_EQ(plan->least_budget, k.budget + Bytes{1});
    }
  }
}

TEST(RotorTest, TheLeastBudgetIsTheFirstOneTheTableHasAPlanFor) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Chain chain = RandomChain(seed, 2 + seed % 7, seed % 2 == 1);
    const Bytes least = LeastChainBudget(chain, kRotor);
    const auto table = Table(chain, least + Bytes{5});
    EXPECT_FALSE(table->TimeAt(least - Bytes{1}).has_value()) << seed;
    EXPECT_TRUE(table->TimeAt(least).has_value()) << seed;
    const auto simulation =
        SimulateChain(chain, LeastChainPlan(chain, kRotor), least);
    EXPECT_EQ(simulation.status(), absl::OkStatus()) << seed;
  }
}

TEST(RotorTest, TheTableTakesTheTimeOfItsPlan) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Chain chain = RandomChain(seed, 2 + seed % 7, seed % 2 == 1);
    const Bytes least = LeastChainBudget(chain, kRotor);
    const auto table = Table(chain, least + Bytes{30});
    for (int extra = 0; extra <= 30; extra += 3) {
      const auto plan = MakeChainPlan(chain, least + Bytes{extra}, "rotor");
      ASSERT_EQ(plan.status(), absl::OkStatus()) << seed;
      EXPECT_EQ(plan->time, *table->TimeAt(least + Bytes{extra})) << seed;
    }
  }
}

TEST(RotorTest, NeverBeatsTheExhaustiveSearch) {
  int equal = 0;
  int all = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Chain chain = RandomChain(seed, 3 + seed % 3);
    const Bytes least = LeastChainBudget(chain, kRotor);
    for (int extra : {0, 2, 5, 9}) {
      const Bytes budget = least + Bytes{extra};
      const auto plan = MakeChainPlan(chain, budget, "rotor");
      ASSERT_EQ(plan.status(), absl::OkStatus());
      const Time best = LeastTime(chain, budget);
      EXPECT_GE(plan->time, best) << seed << " " << Count(budget);
      EXPECT_GE(best, plan->lower_bound_time);
      equal += plan->time == best ? 1 : 0;
      ++all;
    }
  }
  // The persistent plan is often, not always, the best of all.
  EXPECT_GT(equal, all / 4);
  EXPECT_LT(equal, all);
}

TEST(RotorTest, SizesAreRoundedUpToSlotsAndTheBudgetHolds) {
  Chain chain = KnownChain("B");
  for (auto* sizes : {&chain.x, &chain.xb, &chain.ft, &chain.bt}) {
    for (Bytes& size : *sizes) size = Bytes{Count(size) * 1000003 + 1};
  }
  chain.xb[0] = chain.x[0];
  const Bytes least = LeastChainBudget(chain, kRotor);
  for (int percent = 100; percent < 300; percent += 7) {
    const Bytes budget{Count(least) * percent / 100};
    const auto plan = MakeChainPlan(chain, budget, "rotor");
    ASSERT_EQ(plan.status(), absl::OkStatus()) << percent;
    ASSERT_TRUE(plan->feasible) << percent;
    EXPECT_LE(plan->peak, budget);
  }
  EXPECT_FALSE(MakeChainPlan(chain, least - Bytes{1}, "rotor")->feasible);
}

TEST(RotorTest, TheCurveHasTheTimeOfEveryBudget) {
  const Chain chain = KnownChain("B");
  const auto curve = MakeChainCurve(chain, "rotor");
  ASSERT_EQ(curve.status(), absl::OkStatus());
  EXPECT_EQ(curve->front().budget, Bytes{16});
  EXPECT_EQ(curve->front().time, 178);
  EXPECT_EQ(curve->back().time, BaseTime(chain));
  for (size_t k = 0; k + 1 < curve->size(); ++k) {
    EXPECT_LT((*curve)[k].budget, (*curve)[k + 1].budget);
    EXPECT_GT((*curve)[k].time, (*curve)[k + 1].time);
    const Bytes last = (*curve)[k + 1].budget - Bytes{1};
    EXPECT_EQ(MakeChainPlan(chain, last, "rotor")->time, (*curve)[k].time);
  }
}

TEST(RotorTest, OptionsAreUsedWhereTheyHelp) {
  Chain chain = KnownChain("A");
  const Bytes budget{9};
  const Time before = MakeChainPlan(chain, budget, "rotor")->time;
  for (int i = 0; i < Stages(chain); ++i) {
    chain.options.push_back({i, 1, 2.5, Bytes{2}, Bytes{0}, Bytes{0}});
  }
  const auto plan = MakeChainPlan(chain, budget, "rotor");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_LT(plan->time, before);
}

}  // namespace
}  // namespace ebbtide
