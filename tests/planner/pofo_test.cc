#include "planner/pofo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "planner/chain_simulate.h"
#include "planner/chain_table.h"
#include "planner/chain_validate.h"
#include "tests/planner/chains.h"
#include "tests/planner/moving_oracle.h"
#include "tests/planner/random_walk.h"

namespace ebbtide {
namespace {

constexpr Bytes kEnough{1 << 20};

// Lanes that move some half of all saved bytes in the time of the forward ops.
Chain MovingChain(std::mt19937* rng, int stages) {
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>((*rng)() % (high - low + 1));
  };
  Chain c;
  c.x.push_back(Bytes{draw(1, 3)});
  c.xb.push_back(c.x[0]);
  for (int i = 0; i < stages; ++i) {
    c.fw.push_back(draw(1, 5));
    c.bw.push_back(draw(1, 8));
    c.ft.push_back(Bytes{draw(0, 2)});
    c.bt.push_back(Bytes{draw(0, 3)});
    c.x.push_back(Bytes{draw(1, 3)});
    c.xb.push_back(c.x.back() + Bytes{draw(0, 6)});
  }
  c.bw.push_back(0);
  c.bt.push_back(Bytes{0});
  c.d2h = c.h2d = 1;
  return c;
}

struct Gaps {
  int cases = 0;
  int exact = 0;
  int infeasible = 0;
  int unknown = 0;
  double sum = 0;
  double worst = 0;
  double sum_of_bound = 0;
  double sum_alone = 0;
};

Gaps Compare(int stages, int wanted, uint32_t seed) {
  std::mt19937 rng(seed);
  Gaps gaps;
  while (gaps.cases < wanted) {
    const Chain chain = MovingChain(&rng, stages);
    const auto keep = MakeChainPlan(chain, kEnough, "keep");
    const int64_t peak = Count(keep->peak);
    const Bytes budget{peak * 2 / 5 +
                       static_cast<int64_t>(rng() % (peak * 3 / 5))};
    const auto alone = MakeChainPlan(chain, budget, "unpinned");
    if (alone->feasible && alone->time == BaseTime(chain)) continue;
    const auto least = MovingOracle(chain, budget).Solve(3000000);
    if (!least.has_value()) {
      ++gaps.unknown;
      continue;
    }
    if (*least == std::numeric_limits<Time>::infinity()) continue;
    ++gaps.cases;
    const PofoSolution found =
        Pofo(chain, 100000, Rounding::kUp, 1)
            .Solve(budget, {.labels = 5000, .plans = 2000});
    if (found.actions.empty()) {
      ++gaps.infeasible;
      continue;
    }
    EXPECT_GE(found.time, *least - 1e-9);
    const double gap = found.time / *least - 1;
    gaps.exact += gap < 1e-9;
    gaps.sum += gap;
    gaps.worst = std::max(gaps.worst, gap);
    gaps.sum_of_bound += *least / found.bound - 1;
    if (alone->feasible) gaps.sum_alone += alone->time / *least - 1;
  }
  printf(
      "L %d: %d cases, exact %.1f %%, infeasible %d, mean %.2f %%, worst %.1f "
      "%%, least over bound %.2f %%, remat alone %.2f %%, unknown %d\n",
      stages, gaps.cases, 100.0 * gaps.exact / gaps.cases, gaps.infeasible,
      100 * gaps.sum / gaps.cases, 100 * gaps.worst,
      100 * gaps.sum_of_bound / gaps.cases, 100 * gaps.sum_alone / gaps.cases,
      gaps.unknown);
  return gaps;
}

TEST(PofoTest, AgainstTheExhaustiveSearch) {
  Compare(4, 500, 1);
  Compare(5, 500, 2);
  Compare(6, 100, 3);
}

}  // namespace
}  // namespace ebbtide
