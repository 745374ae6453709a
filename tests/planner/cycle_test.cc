#include "planner/cycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/chain_plan.h"
#include "planner/chain_validate.h"
#include "planner/cycle_actions.h"
#include "planner/cycle_search.h"
#include "planner/cycle_simulate.h"
#include "planner/cycle_validate.h"
#include "tests/planner/random_walk.h"
#include "tests/planner/weight_chains.h"

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;
using testing::HasSubstr;

constexpr Bytes kEnough{int64_t{1} << 50};
constexpr const char* kSolvers[] = {"greedy", "greedy-star", "weights",
                                    "joint"};

// Two stages of one byte's values; the first one's weight has 10 bytes.
Chain TwoStages() {
  Chain c;
  c.fw = {1, 4};
  c.bw = {1, 4, 0};
  c.x = c.xb = {Bytes{1}, Bytes{1}, Bytes{1}};
  c.ft = {Bytes{0}, Bytes{0}};
  c.bt = {Bytes{0}, Bytes{0}, Bytes{0}};
  c.d2h = c.h2d = 2;
  c.weights = {{{0}, Bytes{10}, Bytes{10}, Bytes{0}}};
  return c;
}

int64_t KeptPeak(const Cycle& cycle) {
  const auto live = LeastLive(cycle, StayingPlan(cycle));
  return Count(*std::max_element(live.begin(), live.end()));
}

TEST(CycleTest, HasTheGapsOfAWeightAndOfWhatItsUpdateTakes) {
  Chain chain = TwoStages();
  chain.weights[0].state = Bytes{20};
  const Cycle cycle = KeptCycle(chain);
  ASSERT_EQ(cycle.Ops(), 5);
  ASSERT_EQ(cycle.items.size(), 3);
  ASSERT_EQ(cycle.gaps.size(), 3);  // the gradient comes and goes in one op
  EXPECT_EQ(cycle.gaps[0].after, 0);
  EXPECT_EQ(cycle.gaps[0].before, 4);
  EXPECT_EQ(cycle.gaps[1].before, 5);
  EXPECT_EQ(cycle.copies[cycle.gaps[0].copy].writer, 4);
  EXPECT_EQ(cycle.gaps[2].after, 4);
  EXPECT_EQ(cycle.gaps[2].before, 9);
  // x0, x1, y1, y0, the weight, its gradient and its state.
  EXPECT_EQ(KeptPeak(cycle), 4 + 10 + 10 + 20);
}

// Copied after the backward, gone after the forward of the next step, back
// before its backward: the copy out takes 5, which the step behind the backward
// (1) and the forward (1) do not cover, and the copy back 5 of the 9 between.
TEST(CycleTest, AWeightThatIsCopiedAfterItsUpdateLeavesBehindTheNextForward) {
  const Chain chain = TwoStages();
  const Cycle cycle = KeptCycle(chain);
  CyclePlan plan = StayingPlan(cycle);
  plan.away[0] = true;
  plan.back[0] = 3;
  const CycleSimulation roomy = SimulateCycle(cycle, plan, Bytes{100});
  ASSERT_TRUE(roomy.fits);
  // Nothing waits for the way out; the way back begins before the last stage's
  // backward of 4, and the copy takes 5.
  EXPECT_EQ(roomy.time, 11);
  const auto actions =
      WriteCycle(Stages(chain), KeepAll(Stages(chain)), cycle, plan);
  const auto verdict = ValidateCycle(chain, actions, Bytes{100});
  ASSERT_EQ(verdict.status(), absl::OkStatus());
  EXPECT_EQ(verdict->time, roomy.time);
  EXPECT_EQ(verdict->peak, roomy.peak);
  // The second forward holds 3 bytes of values and may not have the weight.
  const CycleSimulation tight = SimulateCycle(cycle, plan, Bytes{24});
  ASSERT_TRUE(tight.fits);
  EXPECT_EQ(tight.time, 11);
}

TEST(CycleTest, AWeightThatTheHostUpdatesComesBackFromThere) {
  Chain chain = TwoStages();
  chain.weights[0].host_update = 3;
  const Cycle cycle = KeptCycle(chain);
  CyclePlan plan = StayingPlan(cycle);
  plan.on_host[0] = true;
  plan.away[1] = true;
  const CycleSimulation simulation = SimulateCycle(cycle, plan, Bytes{100});
  ASSERT_TRUE(simulation.fits);
  // The step, then the gradient out (5), the update (3) and the weight in (5).
  EXPECT_EQ(simulation.time, 10 + 5 + 3 + 5);
  const auto actions =
      WriteCycle(Stages(chain), KeepAll(Stages(chain)), cycle, plan);
  const auto verdict = ValidateCycle(chain, actions, Bytes{100});
  ASSERT_EQ(verdict.status(), absl::OkStatus());
  EXPECT_EQ(verdict->time, simulation.time);
}

// Every choice of gaps and of returns.
class Exhaustive {
 public:
  Exhaustive(const Cycle& cycle, Bytes budget) : c_(cycle), budget_(budget) {}

  CycleSimulation Run() {
    plan_ = StayingPlan(c_);
    Decide(0);
    return best_;
  }

 private:
  void Decide(size_t g) {
    if (g == c_.gaps.size()) {
      const CycleSimulation next = SimulateCycle(c_, plan_, budget_);
      if (next.fits && (!best_.fits || next.time < best_.time)) best_ = next;
      return;
    }
    const CycleGap& gap = c_.gaps[g];
    plan_.away[g] = false;
    Decide(g + 1);
    if (gap.before == gap.after + 1) return;
    plan_.away[g] = true;
    for (int back = gap.after + 1; back <= gap.before; ++back) {
      plan_.back[g] = back;
      Decide(g + 1);
    }
    plan_.away[g] = false;
  }

  const Cycle& c_;
  const Bytes budget_;
  CyclePlan plan_;
  CycleSimulation best_;
};

TEST(CycleTest, TheSearchFindsWhatTryingEveryPlanDoes) {
  int cases = 0;
  int exact = 0;
  double gap = 0;
  for (uint32_t seed = 0; seed < Often(60, 400); ++seed) {
    const Cycle cycle = KeptCycle(WeightChain(seed, 2));
    const int64_t least = Count(LeastCycleBudget(cycle));
    const int64_t wide = KeptPeak(cycle) - least;
    const Bytes budget{least + wide * (seed % 10) / 10};
    const CycleSimulation best = Exhaustive(cycle, budget).Run();
    const CycleSolution found = SolveCycle(cycle, budget, {});
    ASSERT_EQ(found.simulation.fits, best.fits) << seed;
    if (!best.fits) continue;
    ++cases;
    EXPECT_GE(found.simulation.time, best.time) << seed;
    exact += found.simulation.time == best.time;
    gap += found.simulation.time / best.time - 1;
  }
  RecordProperty("exact", exact);
  RecordProperty("cases", cases);
  EXPECT_GE(exact, 0.98 * cases);
  EXPECT_LE(gap, 0.001 * cases);
}

TEST(WeightPlanTest, PlansAreValidFromTheLeastBudgetOn) {
  for (uint32_t seed = 0; seed < Often(16, 400); ++seed) {
    const Chain chain =
        WeightChain(seed, 2 + seed % 7,
                    {.shared = seed % 3 == 0, .host_update = seed % 2 == 0});
    const auto all = MakeChainPlan(chain, kEnough, "weights");
    ASSERT_EQ(all.status(), absl::OkStatus()) << seed;
    // On the device an update takes time that the host might save.
    EXPECT_GE(all->time, all->lower_bound_time) << seed;
    if (seed % 2 == 1) {
      EXPECT_EQ(all->time, all->lower_bound_time) << seed;
    }
    const int64_t least = Count(all->least_budget);
    for (int tenths : {0, 2, 6}) {
      const Bytes budget{least + (Count(all->peak) - least) * tenths / 10};
      Time time[4];
      for (int s = 0; s < 4; ++s) {
        // Valid, or it would be an error.
        const auto plan = MakeChainPlan(chain, budget, kSolvers[s]);
        ASSERT_EQ(plan.status(), absl::OkStatus()) << seed << kSolvers[s];
        time[s] = plan->feasible ? plan->time : 1e9;
      }
      EXPECT_LE(time[2], std::min(time[0], time[1])) << seed;
      EXPECT_LE(time[3], time[2]) << seed;
      EXPECT_LT(time[2], 1e9) << seed;
    }
    const auto below = MakeChainPlan(chain, Bytes{least - 1}, "weights");
    ASSERT_EQ(below.status(), absl::OkStatus());
    EXPECT_FALSE(below->feasible) << seed;
  }
}

TEST(WeightPlanTest, WithoutLanesOnlyValuesAreMadeAgain) {
  Chain chain = WeightChain(3, 6);
  chain.d2h = chain.h2d = 0;
  const auto all = MakeChainPlan(chain, kEnough, "auto");
  ASSERT_EQ(all.status(), absl::OkStatus());
  EXPECT_EQ(all->solver, "joint");
  const auto plan = MakeChainPlan(chain, all->least_budget, "joint");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_TRUE(plan->feasible);
  EXPECT_GT(plan->time, all->time);
  for (const ChainAction& a : plan->actions) {
    EXPECT_NE(a.what, Do::kOffload);
  }
}

TEST(WeightPlanTest, AFullHostKeepsItemsOnTheDevice) {
  Chain chain = WeightChain(5, 6);
  chain.host = Bytes{0};
  const auto plan = MakeChainPlan(chain, kEnough, "weights");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  const auto none = MakeChainPlan(chain, plan->peak - Bytes{1}, "weights");
  ASSERT_EQ(none.status(), absl::OkStatus());
  EXPECT_FALSE(none->feasible);
}

TEST(CycleValidateTest, PlansAreRefusedWithAnActionOfAWeightDropped) {
  int dropped = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const Chain chain =
        WeightChain(seed, 5, {.shared = true, .host_update = true});
    const auto all = MakeChainPlan(chain, kEnough, "weights");
    const int64_t least = Count(all->least_budget);
    const Bytes budget{least + (Count(all->peak) - least) / 4};
    const auto plan = MakeChainPlan(chain, budget, "joint");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    ASSERT_EQ(ValidateChainPlan(chain, *plan), absl::OkStatus());
    for (size_t k = 0; k < plan->actions.size(); ++k) {
      ChainPlan less = *plan;
      less.actions.erase(less.actions.begin() + static_cast<int>(k));
      EXPECT_NE(ValidateChainPlan(chain, less), absl::OkStatus())
          << seed << " without action " << k << " of "
          << ChainPlanToJson(*plan);
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 300);
}

TEST(CycleValidateTest, NamesTheRuleThatIsBroken) {
  const Chain chain = TwoStages();
  const ChainActions kept = AddFrees(2, KeepAll(2));
  const auto message = [&](ChainActions actions, int64_t budget = 100) {
    return std::string(
        ValidateCycle(chain, actions, Bytes{budget}).status().message());
  };
  EXPECT_THAT(message(kept), HasSubstr("grad[0] is left over"));
  ChainActions whole = kept;
  whole.push_back({Do::kFree, 0, 0, Item::kGrad});
  EXPECT_EQ(message(whole), "");
  EXPECT_THAT(message(whole, 23), HasSubstr("needs 24, the budget is 23"));
  ChainActions gone = whole;
  gone.push_back({Do::kFree, 0, 0, Item::kWeight});
  EXPECT_THAT(message(gone), HasSubstr("weight[0] is not on the"));
  ChainActions copied = whole;
  copied.push_back({Do::kOffload, 0, 0, Item::kWeight});
  EXPECT_THAT(message(copied), HasSubstr("is written before it is brought"));
  ChainActions other = whole;
  other.push_back({Do::kOffload, 1, 0, Item::kWeight});
  EXPECT_THAT(message(other), HasSubstr("expected a weight below 1, got 1"));
  ChainActions updated = whole;
  updated.push_back({Do::kUpdate, 0});
  EXPECT_THAT(message(updated), HasSubstr("the host cannot do it"));
}

TEST(WeightPlanTest, ACurveFallsFromTheLeastBudgetOn) {
  const Chain chain = WeightChain(1, 6);
  const auto all = MakeChainPlan(chain, kEnough, "weights");
  const auto curve = MakeChainCurve(chain, "weights");
  ASSERT_EQ(curve.status(), absl::OkStatus());
  ASSERT_GT(curve->size(), 3);
  EXPECT_EQ(curve->front().budget, all->least_budget);
  for (size_t k = 1; k < curve->size(); ++k) {
    EXPECT_LT((*curve)[k].time, (*curve)[k - 1].time);
    EXPECT_GT((*curve)[k].budget, (*curve)[k - 1].budget);
  }
  EXPECT_EQ(curve->back().time, all->time);
}

TEST(WeightPlanTest, TextReadsBackBitForBit) {
  const Chain chain = WeightChain(2, 5, {.host_update = true});
  const auto all = MakeChainPlan(chain, kEnough, "weights");
  const auto plan = MakeChainPlan(chain, all->least_budget, "weights");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  const auto back = ChainPlanFromJson(ChainPlanToJson(*plan), "plan.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(back->actions, plan->actions);
  EXPECT_EQ(ChainPlanToJson(*back), ChainPlanToJson(*plan));
  const auto again = ChainFromJson(ChainToJson(chain), "chain.json");
  ASSERT_EQ(again.status(), absl::OkStatus());
  EXPECT_EQ(ChainToJson(*again), ChainToJson(chain));
}

}  // namespace
}  // namespace ebbtide
