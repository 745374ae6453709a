#include "planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/cut_starts.h"
#include "planner/evaluator.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_walk.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

// Half the evaluations roaming, the rest settling from the best.
void RoamAndSettle(int64_t evaluations, Search* search) {
  const int64_t half = evaluations / 2;
  for (int patience : {Search::kRoaming, Search::kSettling}) {
    if (search->has_best()) search->Load(search->best());
    const int64_t first = search->evaluations();
    const Progress progress = [&] {
      return static_cast<double>(search->evaluations() - first) / half;
    };
    search->Anneal(progress, patience);
  }
}

void Reoptimise(int64_t evaluations, Search* search) {
  const int64_t first = search->evaluations();
  search->Reoptimise([&] {
    return static_cast<double>(search->evaluations() - first) / evaluations;
  });
}

// The search's values for its best plan, whose moves were mostly rejected half
// evaluated, are those of an evaluation from nothing.
TEST(SearchTest, KnowsItsBestPlan) {
  int found = 0;
  const auto make = [](uint32_t seed) {
    return RandomProfile(seed, 3 + seed % 40, seed % 2 == 0);
  };
  const auto look = [&](const Profile& p, int64_t budget) {
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    const Draft keep = KeepAll(*graph, p.d2h > 0);
    Search search(*graph, budget, /*rebuild=*/true, /*seed=*/7, keep);
    RoamAndSettle(2000, &search);
    if (!search.has_best()) return;
    ++found;
    const Time before = search.best_overhead();
    Reoptimise(1000, &search);
    EXPECT_LE(search.best_overhead(), before);
    Evaluator evaluator(*graph);
    Evaluation whole;
    evaluator.Evaluate(search.best(), &whole);
    EXPECT_FALSE(whole.broken);
    EXPECT_LE(whole.peak, budget);
    EXPECT_EQ(HostExcess(*graph, whole), 0);
    Lanes lanes(*graph, budget);
    EXPECT_EQ(search.best_overhead(),
              whole.overhead + lanes.Stall(TrafficOf(whole)));
  };
  const auto seeds = static_cast<uint32_t>(Often(60, 600));
  WalkProfiles({0, seeds}, {40, 60, 80, 100}, make, look);
  EXPECT_GT(found, 100);
}

// At this budget every layer is a choice of what to hold among pieces that cost
// about the same per byte. Roaming alone ends at 41.05 to 41.36 % of the step
// with as many evaluations.
TEST(SearchTest, SettlesAmongEqualLayers) {
  const Profile p = ResearchGraph("gpts", 12);
  const auto graph = CompileGraph(p, true);
  ASSERT_EQ(graph.status(), absl::OkStatus());
  Evaluator evaluator(*graph);
  Evaluation keep;
  evaluator.Evaluate(KeepAll(*graph, /*offload=*/false), &keep);
  const int64_t budget = keep.peak / 4;
  CutStarts starts(*graph, /*offload=*/false);
  for (uint64_t seed : {1, 2}) {
    Search search(*graph, budget, /*rebuild=*/true, seed,
                  starts.Fewest(CutStarts::Rest::kNear));
    RoamAndSettle(120000, &search);
    ASSERT_TRUE(search.has_best());
    EXPECT_LE(search.best_overhead(), BaseTime(p) * 0.41) << seed;
  }
}

// After so few evaluations there are decisions that are better made together.
TEST(SearchTest, WindowsBetterWhatHasSettled) {
  const Profile p = RandomNetwork(1, 100);
  const auto graph = CompileGraph(p, true);
  ASSERT_EQ(graph.status(), absl::OkStatus());
  CutStarts starts(*graph, /*offload=*/false);
  int better = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Search search(*graph, KeepPeak(p) * 7 / 10, /*rebuild=*/true, seed,
                  starts.Fewest(CutStarts::Rest::kNear));
    RoamAndSettle(4000, &search);
    ASSERT_TRUE(search.has_best());
    const Time before = search.best_overhead();
    Reoptimise(4000, &search);
    EXPECT_LE(search.best_overhead(), before);
    better += search.best_overhead() < before ? 1 : 0;
  }
  EXPECT_GE(better, 4);
}

}  // namespace
}  // namespace ebbtide
