#include "planner/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "planner/evaluator.h"
#include "planner/plan_state.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_walk.h"

namespace ebbtide {
namespace {

// Any plan at all: rows of all kinds of bits.
Draft SomePlan(const Graph& graph, uint32_t seed) {
  std::mt19937 rng(seed);
  Draft draft = KeepAll(graph, /*offload=*/false);
  for (int v = 0; v < graph.values; ++v) {
    if (graph.pinned[v]) continue;
    if (rng() % 2 == 0) draft.bits.SetRow(v, 0);
    for (int t = -1; t < graph.stages; ++t) {
      if (rng() % 3 == 0) draft.bits.Set(v, t, rng() % 2);
    }
  }
  return draft;
}

// Decisions about different values, or about one value one after the other.
std::vector<Decision> RandomDecisions(const Graph& graph, uint32_t seed) {
  std::mt19937 rng(seed);
  const auto below = [&](int n) { return static_cast<int>(rng() % n); };
  std::vector<Decision> decisions;
  for (int v = 0; v < graph.values; ++v) {
    int begin = below(4) - 1;
    while (begin < graph.stages && below(3) > 0) {
      const int end = begin + 1 + below(graph.stages);
      decisions.push_back({v, begin, end});
      begin = end + below(2);
    }
  }
  std::shuffle(decisions.begin(), decisions.end(), rng);
  decisions.resize(std::min<size_t>(decisions.size(), 9));
  return decisions;
}

// The least overhead of all choices, each evaluated from nothing.
Time LeastOverhead(const Graph& graph, int64_t budget, const Draft& draft,
                   const std::vector<Decision>& decisions) {
  Evaluator evaluator(graph);
  Evaluation result;
  Time least = std::numeric_limits<Time>::infinity();
  for (uint32_t choice = 0; choice < 1u << decisions.size(); ++choice) {
    Draft changed = draft;
    for (size_t k = 0; k < decisions.size(); ++k) {
      const Decision& d = decisions[k];
      if (graph.pinned[d.value]) continue;
      for (int t = d.begin; t < d.end; ++t) {
        changed.bits.Set(d.value, t, choice >> k & 1);
      }
    }
    evaluator.Evaluate(changed, &result);
    if (result.broken || result.peak > budget) continue;
    least = std::min(least, result.overhead);
  }
  return least;
}

TEST(WindowTest, FindsWhatTryingEveryChoiceFinds) {
  int better = 0;
  int cut = 0;  // by bounds
  for (uint32_t seed = 0; seed < static_cast<uint32_t>(Often(600, 20000));
       ++seed) {
    SCOPED_TRACE(seed);
    const Profile p = RandomProfile(seed, 3 + seed % 14);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    const Draft draft = SomePlan(*graph, seed);
    Evaluation plan;
    Evaluator(*graph).Evaluate(draft, &plan);
    if (plan.broken) continue;
    // From what the plan just takes to a little more.
    const int64_t budget = plan.peak + seed % 5;
    const std::vector<Decision> decisions = RandomDecisions(*graph, seed);
    const Time least = std::min(
        plan.overhead, LeastOverhead(*graph, budget, draft, decisions));
    PlanState state(*graph, budget);
    state.Load(draft);
    Window window(*graph, budget);
    const bool found = window.Solve(
        decisions, [] { return false; }, &state);
    EXPECT_EQ(state.rebuild_time(), least);
    EXPECT_EQ(found, least < plan.overhead);
    EXPECT_EQ(state.over(), 0);
    EXPECT_FALSE(state.changed());
    better += found ? 1 : 0;
    cut += window.nodes() < 1 << decisions.size() ? 1 : 0;
  }
  EXPECT_GT(better, 100);
  EXPECT_GT(cut, 100);
}

}  // namespace
}  // namespace ebbtide
