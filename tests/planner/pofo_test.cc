#include "planner/pofo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <random>
#include <tuple>

#include "planner/chain_plan.h"
#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "tests/planner/chains.h"
#include "tests/planner/moving_oracle.h"
#include "tests/planner/random_walk.h"

namespace ebbtide {
namespace {

constexpr Bytes kEnough{int64_t{1} << 50};
constexpr Time kNever = std::numeric_limits<Time>::infinity();

class Draw {
 public:
  explicit Draw(uint32_t seed) : rng_(seed) {}
  int operator()(int low, int high) {
    return low + static_cast<int>(rng_() % (high - low + 1));
  }

 private:
  std::mt19937 rng_;
};

// Lanes that move some half of all saved sets in the time of the forward ops.
Chain MovingChain(Draw* draw, int stages) {
  Chain c;
  c.x.push_back(Bytes{(*draw)(1, 3)});
  c.xb.push_back(c.x[0]);
  for (int i = 0; i < stages; ++i) {
    c.fw.push_back((*draw)(1, 5));
    c.bw.push_back((*draw)(1, 8));
    c.ft.push_back(Bytes{(*draw)(0, 2)});
    c.bt.push_back(Bytes{(*draw)(0, 3)});
    c.x.push_back(Bytes{(*draw)(1, 3)});
    c.xb.push_back(c.x.back() + Bytes{(*draw)(0, 6)});
  }
  c.bw.push_back(0);
  c.bt.push_back(Bytes{0});
  c.d2h = c.h2d = 1;
  return c;
}

int64_t KeepPeak(const Chain& chain) {
  return Count(MakeChainPlan(chain, kEnough, "keep")->peak);
}

struct Gaps {
  int cases = 0;
  int exact = 0;
  int infeasible = 0;
  int unknown = 0;  // the search took too long
  double sum = 0;
  double worst = 0;

  double Exact() const { return exact / static_cast<double>(cases); }
  double Mean() const { return sum / cases; }
};

void Compare(const Chain& chain, Bytes budget, Gaps* gaps) {
  const auto least = MovingOracle(chain, budget).Solve(20'000'000);
  if (!least.has_value()) {
    ++gaps->unknown;
    return;
  }
  if (*least == kNever) return;
  ++gaps->cases;
  const Pofo pofo(chain, 100000, Rounding::kUp, /*threads=*/1);
  const PofoSolution found =
      pofo.Solve(budget, {.labels = 5000, .plans = 2000});
  if (found.actions.empty()) {
    ++gaps->infeasible;
    return;
  }
  EXPECT_GE(found.time, *least);
  const double gap = found.time / *least - 1;
  gaps->exact += gap == 0;
  gaps->sum += gap;
  gaps->worst = std::max(gaps->worst, gap);
}

// Where keeping everything does not fit.
void CompareRandom(int stages, int cases, Gaps* gaps) {
  Draw draw(stages);
  const int end = gaps->cases + cases;
  while (gaps->cases < end) {
    const Chain chain = MovingChain(&draw, stages);
    const int peak = static_cast<int>(KeepPeak(chain));
    Compare(chain, Bytes{draw(peak * 2 / 5, peak - 1)}, gaps);
  }
}

void ExpectSmall(const Gaps& gaps) {
  std::printf(
      "%d cases (%d more unknown): exact %.1f %%, no plan %d, mean %.3f %%, "
      "worst %.1f %%\n",
      gaps.cases, gaps.unknown, 100 * gaps.Exact(), gaps.infeasible,
      100 * gaps.Mean(), 100 * gaps.worst);
  EXPECT_GE(gaps.Exact(), 0.94);
  EXPECT_LE(gaps.Mean(), 0.002);
}

TEST(PofoTest, AgainstTheExhaustiveSearch) {
  const bool apart = Often(0, 1) == 1;  // too few of each otherwise
  Gaps all;
  for (const auto& [stages, usually, in_long_runs] :
       {std::tuple{4, 100, 500}, {5, 20, 500}, {6, 1, 100}}) {
    Gaps gaps;
    CompareRandom(stages, Often(usually, in_long_runs), apart ? &gaps : &all);
    if (apart) ExpectSmall(gaps);
  }
  if (!apart) ExpectSmall(all);
}

// A port of POFO that others have tested the workspace of all stages behind a
// segment where only those of the segment matter.
TEST(PofoTest, AStageWithALargeWorkspaceDoesNotForbidSegmentsBeforeIt) {
  Draw draw(11);
  Gaps gaps;
  for (int n = 0; n < 60; ++n) {
    Chain chain = MovingChain(&draw, 4);
    chain.ft[3] += Bytes{6};
    const int peak = static_cast<int>(KeepPeak(chain));
    Compare(chain, Bytes{draw(peak / 2, peak * 3 / 4)}, &gaps);
  }
  EXPECT_GT(gaps.cases, 40);
  EXPECT_EQ(gaps.infeasible, 0);
  EXPECT_GE(gaps.Exact(), 0.94);
}

// The port took the bytes of a segment's input off its room twice.
TEST(PofoTest, FindsAPlanWithinTheLeastBudgetThatHasOne) {
  Draw draw(12);
  for (int n = 0; n < 30; ++n) {
    const Chain chain = MovingChain(&draw, 3 + n % 2);
    int64_t least = KeepPeak(chain);
    while (MovingOracle(chain, Bytes{least - 1}).Solve(20'000'000) != kNever) {
      --least;
    }
    const auto plan = MakeChainPlan(chain, Bytes{least}, "pofo");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_TRUE(plan->feasible) << n;
    const auto below = MakeChainPlan(chain, Bytes{least - 1}, "pofo");
    ASSERT_EQ(below.status(), absl::OkStatus());
    EXPECT_FALSE(below->feasible) << n;
    EXPECT_EQ(below->least_budget, Bytes{least}) << n;
  }
}

// Layers of a transformer, in bytes that no slot divides.
Chain Layers(int layers) {
  Chain c;
  c.x = {Bytes{20'011}};
  c.xb = c.x;
  for (int i = 0; i < layers; ++i) {
    c.fw.push_back(1);
    c.bw.push_back(2);
    c.x.push_back(Bytes{1'000'003});
    c.xb.push_back(Bytes{13'000'027});
    c.ft.push_back(Bytes{2'000'003});
    c.bt.push_back(Bytes{5'000'011});
  }
  c.bw.push_back(0);
  c.bt.push_back(Bytes{0});
  c.d2h = c.h2d = 0.4 * 13'000'027;
  return c;
}

// The port built the table of what is recomputed with as few slots as its own.
TEST(PofoTest, RoundingCostsNextToNothing) {
  const Chain chain = Layers(24);
  for (int percent : {15, 30, 50}) {
    const Bytes budget{KeepPeak(chain) * percent / 100};
    const auto plan = MakeChainPlan(chain, budget, "pofo");
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_TRUE(plan->feasible);
    EXPECT_LE(plan->rounding_loss, 0.001) << percent;
    const auto alone = MakeChainPlan(chain, budget, "unpinned");
    if (!alone->feasible) continue;
    const Time base = BaseTime(chain);
    EXPECT_LT(plan->time - base, 0.7 * (alone->time - base)) << percent;
  }
}

// Options, unequal lanes and a host that is full are kept to as well.
TEST(PofoTest, PlansAreValidAndNoSlowerThanWithoutTheLanes) {
  Draw draw(13);
  int moving = 0;
  for (int n = 0; n < 150; ++n) {
    Chain chain = RandomChain(n, 3 + n % 8, /*options=*/n % 2 == 0);
    const auto alone_budget =
        Bytes{std::max<int64_t>(1, KeepPeak(chain) * draw(40, 90) / 100)};
    const auto alone = MakeChainPlan(chain, alone_budget, "unpinned");
    chain.d2h = draw(1, 8) / 4.0;
    chain.h2d = draw(1, 8) / 4.0;
    if (n % 3 == 0) chain.host = Bytes{draw(0, 9)};
    const auto plan = MakeChainPlan(chain, alone_budget, "pofo");
    ASSERT_EQ(alone.status(), absl::OkStatus());
    ASSERT_EQ(plan.status(), absl::OkStatus()) << n;
    EXPECT_TRUE(plan->feasible || !alone->feasible) << n;
    EXPECT_LE(plan->least_budget, alone->least_budget);
    if (!plan->feasible) continue;
    if (alone->feasible) {
      EXPECT_LE(plan->time, alone->time) << n;
    }
    EXPECT_EQ(ValidateChainPlan(chain, *plan), absl::OkStatus()) << n;
    moving += std::any_of(plan->actions.begin(), plan->actions.end(),
                          [](const ChainAction& a) {
                            return a.what == ChainAction::Do::kOffload;
                          });
  }
  EXPECT_GT(moving, 60);
}

// Whole items have to leave before there is room, and to be there at once.
TEST(PofoTest, ContinuousCopiesAreNoSlowerThanWholeOnes) {
  Draw draw(14);
  int faster = 0;
  for (int n = 0; n < 100; ++n) {
    const Chain chain = MovingChain(&draw, 3 + n % 5);
    const Bytes budget{KeepPeak(chain) * draw(45, 90) / 100};
    const Pofo pofo(chain, 100000, Rounding::kUp, /*threads=*/1);
    const Time whole = pofo.Estimate(budget);
    const Time continuous = pofo.Estimate(budget, /*continuous=*/true);
    if (whole == kNever) continue;
    EXPECT_LE(continuous, whole + 1e-6) << n;
    EXPECT_GE(continuous, BaseTime(chain)) << n;
    faster += continuous < whole - 1e-6;
  }
  EXPECT_GT(faster, 20);
}

// Half of 12 bytes have left when a stage that needs 6 begins; as one item they
// are all there still.
TEST(PofoTest, ContinuousCopiesMakeRoomByteByByte) {
  Chain c;
  c.fw = {20, 6, 1};
  c.bw = {1, 12, 1, 0};
  c.x = {Bytes{0}, Bytes{1}, Bytes{1}, Bytes{1}};
  c.xb = {Bytes{0}, Bytes{12}, Bytes{1}, Bytes{1}};
  c.ft = {Bytes{0}, Bytes{0}, Bytes{6}};
  c.bt = {Bytes{0}, Bytes{0}, Bytes{0}, Bytes{0}};
  c.d2h = c.h2d = 1;
  const Pofo pofo(c, 100000, Rounding::kUp, /*threads=*/1);
  const Time base = BaseTime(c);
  EXPECT_EQ(pofo.Estimate(Bytes{27}), base);
  EXPECT_LT(pofo.Estimate(Bytes{18}, true), pofo.Estimate(Bytes{18}));
}

TEST(PofoTest, IsWhatAutoTakesWhereTheChainHasLanes) {
  Chain chain = Layers(6);
  const Bytes budget{KeepPeak(chain) / 2};
  EXPECT_EQ(MakeChainPlan(chain, budget, "auto")->solver, "pofo");
  chain.h2d = 0;
  EXPECT_EQ(MakeChainPlan(chain, budget, "auto")->solver, "unpinned-floating");
}

TEST(PofoTest, ACurveFallsFromTheLeastBudgetOn) {
  const Chain chain = Layers(8);
  const auto curve = MakeChainCurve(chain, "pofo");
  ASSERT_EQ(curve.status(), absl::OkStatus());
  ASSERT_GT(curve->size(), 3);
  for (size_t k = 1; k < curve->size(); ++k) {
    EXPECT_LT((*curve)[k].time, (*curve)[k - 1].time);
    EXPECT_GT((*curve)[k].budget, (*curve)[k - 1].budget);
  }
  EXPECT_EQ(curve->back().time, BaseTime(chain));
  EXPECT_LE(curve->front().budget,
            MakeChainPlan(chain, kEnough, "unpinned")->least_budget);
}

}  // namespace
}  // namespace ebbtide
