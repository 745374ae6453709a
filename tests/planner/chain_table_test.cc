#include "planner/chain_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "planner/chain_plan.h"
#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "tests/planner/chain_oracle.h"
#include "tests/planner/chains.h"
#include "tests/planner/random_walk.h"

namespace ebbtide {
namespace {

constexpr const char* kSolvers[] = {"rotor", "floating", "unpinned",
                                    "unpinned-floating"};

std::unique_ptr<ChainTable> Table(const Chain& chain, Bytes most,
                                  const std::string& solver, int threads = 1,
                                  int64_t limit = 100000) {
  return MakeChainTable(CountSlots(chain, most, limit, Rounding::kUp),
                        *ParseChainSolver(solver), threads);
}

TEST(ChainTableTest, FloatingTakesItsKnownTimes) {
  const auto known = KnownTimes("floating");
  ASSERT_EQ(known.size(), 5u);
  for (const KnownTime& k : known) {
    const auto plan = MakeChainPlan(k.chain, k.budget, "floating");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_EQ(plan->time, k.time) << k.name << Count(k.budget);
  }
}

TEST(ChainTableTest, UnpinnedTakesNoLongerThanTheResearchFoundOnB) {
  const Chain chain = KnownChain("B");
  const std::map<std::string, std::vector<Time>> most = {
      {"unpinned", {175, 106, 91}}, {"unpinned-floating", {166, 106, 91}}};
  const std::vector<Time> exact = {165, 106, 91};
  for (const auto& [solver, times] : most) {
    int k = 0;
    for (int budget : {16, 20, 26}) {
      const auto plan = MakeChainPlan(chain, Bytes{budget}, solver);
      ASSERT_EQ(plan.status(), absl::OkStatus());
      EXPECT_LE(plan->time, times[k]) << solver << budget;
      EXPECT_GE(plan->time, exact[k]) << solver << budget;
      ++k;
    }
  }
}

// Distance of a solver from the exhaustive search. The limits below are from a
// study of the same chains, with two digits.
struct Gaps {
  int exact = 0;
  int infeasible = 0;
  int solved = 0;
  double sum = 0;

  void Add(const std::optional<Time>& time, Time best) {
    if (!time.has_value()) {
      ++infeasible;
      return;
    }
    EXPECT_GE(*time, best);
    ++solved;
    exact += *time == best ? 1 : 0;
    sum += *time / best - 1;
  }
  double Exact() const { return exact / double(solved + infeasible); }
  double Mean() const { return sum / solved; }
};

struct Compared {
  std::map<std::string, Gaps> unpinned;  // against the unpinned search
  Gaps pinned;                           // rotor against the pinned search
  Gaps floating;
};

Compared CompareWithOracle(uint32_t seed, int wanted, int shortest,
                           int longest) {
  std::mt19937 rng(seed);
  Compared found;
  for (int count = 0; count < wanted;) {
    const int stages = shortest + rng() % (longest - shortest + 1);
    const Chain chain = SmallChain(rng, stages);
    const auto all = MakeChainPlan(chain, Bytes{1 << 20}, "keep");
    const int64_t peak = Count(all->peak);
    const int64_t low = peak * 3 / 10;
    const Bytes budget{low + static_cast<int64_t>(rng() % (peak - low + 1))};
    const Time best = LeastTime(chain, budget);
    if (std::isinf(best) || best <= BaseTime(chain)) continue;
    ++count;
    for (const char* solver : kSolvers) {
      found.unpinned[solver].Add(Table(chain, budget, solver)->TimeAt(budget),
                                 best);
    }
    const Time pinned = LeastTime(chain, budget, Inputs::kPinned);
    if (std::isinf(pinned)) continue;
    found.pinned.Add(Table(chain, budget, "rotor")->TimeAt(budget), pinned);
    found.floating.Add(Table(chain, budget, "floating")->TimeAt(budget),
                       pinned);
  }
  for (auto& [name, gaps] : found.unpinned) {
    testing::Test::RecordProperty(name + " exact",
                                  std::to_string(gaps.Exact()));
    testing::Test::RecordProperty(name + " mean", std::to_string(gaps.Mean()));
  }
  return found;
}

TEST(ChainTableTest, ChainsOfFourToSixStagesAgainstTheExhaustiveSearch) {
  Compared found = CompareWithOracle(11, 2500, 4, 6);
  EXPECT_GE(found.unpinned["unpinned"].Exact(), 0.97);
  EXPECT_LE(found.unpinned["unpinned"].Mean(), 0.00115);
  // No chain is known that it loses anything on.
  EXPECT_EQ(found.unpinned["unpinned-floating"].Exact(), 1);
  EXPECT_GE(found.pinned.Exact(), 0.96);
  EXPECT_GE(found.floating.Exact(), found.pinned.Exact());
  // The room that unpinned plans use is real.
  EXPECT_LT(found.unpinned["rotor"].Exact(), 0.6);
}

TEST(ChainTableTest, ChainsOfSevenAndEightStagesAgainstTheExhaustiveSearch) {
  Compared found = CompareWithOracle(12, 300, 7, 8);
  EXPECT_GE(found.unpinned["unpinned"].Exact(), 0.97);
  EXPECT_LE(found.unpinned["unpinned"].Mean(), 0.00105);
  EXPECT_EQ(found.unpinned["unpinned-floating"].Exact(), 1);
}

TEST(ChainTableTest, OptionsAgainstTheExhaustiveSearch) {
  std::map<std::string, Gaps> gaps;
  for (int seed = 0; seed < Often(150, 1500); ++seed) {
    const Chain chain = RandomChain(seed, 4 + seed % 2, true);
    const Bytes least = LeastChainBudget(chain, {true, true});
    const Bytes budget = least + Bytes{seed % 11};
    const Time best = LeastTime(chain, budget);
    for (const char* solver : kSolvers) {
      gaps[solver].Add(Table(chain, budget, solver)->TimeAt(budget), best);
    }
  }
  EXPECT_GE(gaps["unpinned"].Exact(), 0.94);
  EXPECT_GE(gaps["unpinned-floating"].Exact(), 0.99);
  EXPECT_LT(gaps["rotor"].Exact(), gaps["unpinned"].Exact());
}

TEST(ChainTableTest, PlansTakeTheTimeOfTheTableWithinTheBudget) {
  std::mt19937 rng(77);
  const int wanted = Often(1000, 3000);
  for (int count = 0; count < wanted; ++count) {
    const int stages = 4 + rng() % 12;
    const bool options = count % 3 == 0;
    const Chain chain =
        options ? RandomChain(rng(), stages, true) : SmallChain(rng, stages);
    for (const char* solver : kSolvers) {
      const Bytes least = LeastChainBudget(chain, *ParseChainSolver(solver));
      const Bytes budget = least + Bytes{static_cast<int64_t>(rng() % 40)};
      const auto table = Table(chain, budget, solver);
      const auto simulation =
          SimulateChain(chain, table->PlanAt(budget), budget);
      ASSERT_EQ(simulation.status(), absl::OkStatus()) << solver << count;
      EXPECT_EQ(simulation->time, *table->TimeAt(budget)) << solver << count;
      const auto verdict = ValidateChain(chain, table->PlanAt(budget), budget);
      ASSERT_EQ(verdict.status(), absl::OkStatus()) << solver << count;
      EXPECT_EQ(verdict->time, simulation->time);
      EXPECT_EQ(verdict->peak, simulation->peak);
    }
  }
}

TEST(ChainTableTest, TheLeastBudgetIsTheFirstOneWithAPlan) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Chain chain = RandomChain(seed, 2 + seed % 7, seed % 2 == 1);
    for (const char* name : kSolvers) {
      const ChainSolver solver = *ParseChainSolver(name);
      const Bytes least = LeastChainBudget(chain, solver);
      const auto table = Table(chain, least + Bytes{5}, name);
      EXPECT_FALSE(table->TimeAt(least - Bytes{1}).has_value()) << seed << name;
      EXPECT_TRUE(table->TimeAt(least).has_value()) << seed << name;
      EXPECT_EQ(
          ValidateChain(chain, LeastChainPlan(chain, solver), least).status(),
          absl::OkStatus())
          << seed << name;
    }
  }
}

TEST(ChainTableTest, EveryBudgetOfOneTableIsThatOfItsOwnTable) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Chain chain = RandomChain(seed, 9, seed % 2 == 1);
    for (const char* name : kSolvers) {
      const Bytes least = LeastChainBudget(chain, *ParseChainSolver(name));
      const auto table = Table(chain, least + Bytes{60}, name);
      for (int more = 0; more <= 60; more += 7) {
        const Bytes budget = least + Bytes{more};
        EXPECT_EQ(table->TimeAt(budget),
                  Table(chain, budget, name)->TimeAt(budget))
            << seed << name << more;
      }
    }
  }
}

// Sixty stages: several blocks of pairs, so that threads have some to share.
TEST(ChainTableTest, ThreadsChangeNothing) {
  std::mt19937 rng(5);
  const Chain chain = SmallChain(rng, 60);
  for (const char* name : {"rotor", "unpinned"}) {
    const Bytes least = LeastChainBudget(chain, *ParseChainSolver(name));
    const Bytes most = least + Bytes{80};
    const auto one = Table(chain, most, name, 1);
    for (int threads : {2, 3, 64}) {
      const auto more = Table(chain, most, name, threads);
      EXPECT_EQ(one->PlanAt(most), more->PlanAt(most));
      for (int extra = 0; extra <= 80; ++extra) {
        const Bytes budget = least + Bytes{extra};
        EXPECT_EQ(one->TimeAt(budget), more->TimeAt(budget));
      }
    }
  }
}

TEST(ChainTableTest, TimesThatAreNoWholeNumbersAreCountedInDoubles) {
  std::mt19937 rng(6);
  Chain chain = SmallChain(rng, 12);
  Chain thirds = chain;
  for (auto* times : {&thirds.fw, &thirds.bw}) {
    for (Time& time : *times) time /= 3;
  }
  ASSERT_TRUE(CountSlots(chain, Bytes{99}, 99, Rounding::kUp).small_times);
  ASSERT_FALSE(CountSlots(thirds, Bytes{99}, 99, Rounding::kUp).small_times);
  for (const char* name : kSolvers) {
    const Bytes least = LeastChainBudget(chain, *ParseChainSolver(name));
    const auto whole = Table(chain, least + Bytes{30}, name);
    const auto third = Table(thirds, least + Bytes{30}, name);
    for (int more = 0; more <= 30; ++more) {
      const Bytes budget = least + Bytes{more};
      const auto plan = SimulateChain(chain, third->PlanAt(budget), budget);
      ASSERT_EQ(plan.status(), absl::OkStatus());
      EXPECT_EQ(plan->time, *whole->TimeAt(budget)) << name << more;
    }
  }
}

// Eighths of a unit of time are whole eighths: exact in 32 bits.
TEST(ChainTableTest, BinaryFractionsAreWholeNumbersOfASmallerUnit) {
  std::mt19937 rng(8);
  Chain chain = SmallChain(rng, 8);
  for (Time& time : chain.fw) time /= 8;
  const SlotChain slots = CountSlots(chain, Bytes{99}, 99, Rounding::kUp);
  EXPECT_TRUE(slots.small_times);
  const Bytes least = LeastChainBudget(chain, {});
  const auto table = Table(chain, least, "rotor");
  EXPECT_EQ(SimulateChain(chain, table->PlanAt(least), least)->time,
            *table->TimeAt(least));
}

TEST(ChainTableTest, ACommonDivisorOfAllSizesIsASlot) {
  Chain chain = KnownChain("B");
  for (auto* sizes : {&chain.x, &chain.xb, &chain.ft, &chain.bt}) {
    for (Bytes& size : *sizes) size = Bytes{Count(size) * 1000003};
  }
  const auto plan = MakeChainPlan(chain, Bytes{16 * 1000003 + 5}, "floating");
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_EQ(plan->time, 168);
  EXPECT_EQ(plan->rounding_loss, 0);
  EXPECT_EQ(plan->peak, Bytes{16 * 1000003});
}

TEST(ChainTableTest, RoundingBothWaysEnclosesWhatIsExact) {
  std::mt19937 rng(9);
  int cost = 0;
  for (int count = 0; count < 60; ++count) {
    const Chain chain = SmallChain(rng, 9);
    for (const char* name : kSolvers) {
      const ChainSolver solver = *ParseChainSolver(name);
      const Bytes budget = LeastChainBudget(chain, solver) + Bytes{12};
      const Time exact = *Table(chain, budget, name)->TimeAt(budget);
      const auto up = Table(chain, budget, name, 1, 14)->TimeAt(budget);
      const auto down =
          MakeChainTable(CountSlots(chain, budget, 14, Rounding::kDown), solver)
              ->TimeAt(budget);
      ASSERT_TRUE(down.has_value());
      EXPECT_LE(*down, exact);
      if (!up.has_value()) continue;
      EXPECT_GE(*up, exact);
      cost += *up > *down ? 1 : 0;
    }
  }
  EXPECT_GT(cost, 60);
}

// A chain whose sizes have no common divisor.
Chain UnevenChain(std::mt19937& rng, int stages) {
  Chain chain = SmallChain(rng, stages);
  for (auto* sizes : {&chain.x, &chain.xb, &chain.ft, &chain.bt}) {
    for (Bytes& size : *sizes) {
      size = Bytes{Count(size) * 1000003 + static_cast<int64_t>(rng() % 997)};
    }
  }
  for (size_t i = 1; i < chain.x.size(); ++i) chain.xb[i] += Bytes{1000};
  chain.xb[0] = chain.x[0];
  return chain;
}

TEST(ChainTableTest, NoPlanIsFasterThanACurveSaysOfRounding) {
  std::mt19937 rng(11);
  for (const char* name : {"rotor", "unpinned"}) {
    const Chain chain = UnevenChain(rng, 24);
    const auto curve = MakeChainCurve(chain, name);
    ASSERT_EQ(curve.status(), absl::OkStatus());
    ASSERT_GT(curve->size(), 20);
    EXPECT_GT(curve->front().rounding_loss, 0);
    EXPECT_EQ(curve->back().rounding_loss, 0);
    for (size_t k = 0; k < curve->size(); k += 8) {
      const CurvePoint& point = (*curve)[k];
      const auto plan = MakeChainPlan(chain, point.budget, name);
      ASSERT_EQ(plan.status(), absl::OkStatus());
      EXPECT_LE(plan->time, point.time);
      EXPECT_GE(plan->time * (1 + point.rounding_loss),
                point.time * (1 - 1e-9));
    }
  }
}

TEST(ChainTableTest, SlotsAreFineEnoughForATenthOfAPercent) {
  std::mt19937 rng(10);
  for (const char* name : {"rotor", "unpinned"}) {
    const Chain chain = UnevenChain(rng, 24);
    const Bytes least = LeastChainBudget(chain, *ParseChainSolver(name));
    const auto plan = MakeChainPlan(chain, Bytes{Count(least) * 3 / 2}, name);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_LE(plan->rounding_loss, 0.001) << name;
    EXPECT_LE(plan->peak, plan->budget);
  }
}

TEST(ChainTableTest, ATableThatWouldBeTooLargeIsRefused) {
  std::mt19937 rng(3);
  const Chain chain = SmallChain(rng, 400);
  EXPECT_EQ(CheckTableSize(chain, {}), absl::OkStatus());
  const auto plan = MakeChainPlan(chain, Bytes{400}, "unpinned-floating");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebbtide
