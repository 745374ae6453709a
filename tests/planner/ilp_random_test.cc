// The graph planner against the exact oracle on random networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "planner/ilp/checkmate.h"
#include "planner/plan.h"
#include "planner/validate.h"
#include "tests/planner/random_walk.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

// For each network; a sanitizer makes the solver some ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr absl::Duration kProve = absl::Seconds(200);
#else
constexpr absl::Duration kProve = absl::Seconds(20);
#endif

struct Case {
  Profile profile;
  PlanOptions options;
};

// Half have 5 to 15 forward ops, half 16 to 40; the budget is anywhere between
// the floor and what keeps all.
Case RandomCase(uint32_t seed) {
  std::mt19937 rng(1000 + seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % (high - low + 1));
  };
  Case c;
  c.profile = RandomNetwork(seed, seed % 2 == 0 ? pick(5, 15) : pick(16, 40));
  c.options.evaluations = 30000;
  c.options.time_limit = absl::InfiniteDuration();
  PlanOptions quick = c.options;
  quick.evaluations = 500;
  const auto floor = Floor(c.profile, quick);
  EXPECT_EQ(floor.status(), absl::OkStatus());
  const int64_t most = KeepPeak(c.profile);
  const int64_t range = most - Count(floor->bytes);
  c.options.budget = floor->bytes + Bytes{range * pick(0, 99) / 100};
  return c;
}

struct Tally {
  int solved = 0;
  int unsolved = 0;
  int equal = 0;
  int tight = 0;
  double gap = 0;    // sum of shares of the step
  double worst = 0;  // gap
  uint32_t worst_seed = 0;

  void Print() const {
    std::printf(
        "%d networks: planner equal to the optimum in %d, its bound in %d; "
        "mean gap %.4f %%, worst %.3f %% (seed %u); not proven in %d s: %d\n",
        solved, equal, tight, 100 * gap / solved, 100 * worst, worst_seed,
        static_cast<int>(absl::ToInt64Seconds(kProve)), unsolved);
  }
};

void Compare(uint32_t seed, Tally* tally) {
  const Case c = RandomCase(seed);
  const auto plan = MakePlan(c.profile, c.options);
  ASSERT_EQ(plan.status(), absl::OkStatus());
  ASSERT_TRUE(plan->feasible);
  const auto graph = CompileGraph(c.profile, true);
  ASSERT_EQ(graph.status(), absl::OkStatus());
  // Times are whole numbers: the planner's own plan is what the oracle is to
  // find, or a better one.
  const Time base = BaseTime(c.profile);
  const IlpOptions options{.budget = Count(c.options.budget),
                           .cutoff = plan->time - base + 0.5,
                           .time_limit = kProve};
  const auto best = SolveIlp(*graph, options);
  ASSERT_EQ(best.status(), absl::OkStatus());
  if (!best->proven) {
    ++tally->unsolved;
    std::printf("network %u, %zu ops: not proven\n", seed,
                c.profile.ops.size());
    return;
  }
  ASSERT_TRUE(best->found) << "the planner is below the optimum";
  const auto verdict = Validate(c.profile, best->actions, c.options.budget);
  ASSERT_EQ(verdict.status(), absl::OkStatus());
  EXPECT_GE(plan->time, verdict->time);
  EXPECT_LE(plan->lower_bound_time, verdict->time);
  ++tally->solved;
  tally->equal += plan->time == verdict->time;
  tally->tight += plan->lower_bound_time == verdict->time;
  const double gap = plan->time / verdict->time - 1;
  tally->gap += gap;
  if (gap <= tally->worst) return;
  tally->worst = gap;
  tally->worst_seed = seed;
}

TEST(IlpRandomTest, ThePlannerIsNearlyAlwaysOptimal) {
  const int networks = Often(30, 300);
  Tally tally;
  for (int seed = 0; seed < networks; ++seed) {
    SCOPED_TRACE(seed);
    Compare(seed, &tally);
  }
  tally.Print();
  EXPECT_GE(tally.solved, networks * 95 / 100);
  EXPECT_GE(tally.equal, tally.solved * 0.97);
  EXPECT_LE(tally.gap, tally.solved * 0.0005);
}

}  // namespace
}  // namespace ebbtide
