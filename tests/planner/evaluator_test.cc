#include "planner/evaluator.h"

#include <gtest/gtest.h>

#include "planner/simulate.h"
#include "planner/validate.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

constexpr Bytes kPlenty{1 << 20};

// A random plan: every bit a coin of the given weight, pinned rows kept, a few
// values recomputed early.
Draft RandomDraft(const Graph& graph, uint32_t seed) {
  std::mt19937 rng(seed);
  const uint32_t weight = rng() % 5;
  Draft draft = KeepAll(graph, true);
  for (int v = 0; v < graph.values; ++v) {
    if (graph.pinned[v]) continue;
    for (int t = -1; t < graph.stages; ++t) {
      draft.bits.Set(v, t, rng() % 4 < weight);
    }
    if (graph.replayable[graph.op[v]] && rng() % 4 == 0) {
      draft.bits.row(v).AddEarly(rng() % graph.stages);
    }
  }
  return draft;
}

TEST(RetentionTest, EvaluatorSimulatorAndValidatorAgreeOnRandomPlans) {
  int rebuilt = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 9);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    Draft draft = RandomDraft(*graph, seed);
    Evaluator evaluator(*graph);
    Evaluation result;
    const auto actions = evaluator.Actions(
        draft, std::vector<std::vector<int>>(graph->stages), &result);
    ASSERT_FALSE(result.broken) << seed;
    rebuilt += result.rebuilt.empty() ? 0 : 1;
    const auto verdict = Validate(p, actions, kPlenty);
    ASSERT_EQ(verdict.status(), absl::OkStatus()) << seed;
    const auto simulation = Simulate(p, actions, kPlenty);
    ASSERT_EQ(simulation.status(), absl::OkStatus()) << seed;
    EXPECT_EQ(verdict->time, BaseTime(p) + result.overhead) << seed;
    EXPECT_EQ(verdict->peak, Bytes{result.peak}) << seed;
    EXPECT_EQ(simulation->time, verdict->time) << seed;
    EXPECT_EQ(simulation->peak, verdict->peak) << seed;
    for (int t = 0; t < graph->stages; ++t) {
      EXPECT_EQ(Count(simulation->curve[graph->ops + t]), result.stage_peak[t]);
    }
  }
  EXPECT_GT(rebuilt, 1000);
}

TEST(RetentionTest, MovedValuesTakeTheirRoomOnlyBetweenTheirCopies) {
  int moved = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 9, true);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    Draft draft = RandomDraft(*graph, seed);
    Evaluator evaluator(*graph);
    Evaluation result;
    evaluator.Evaluate(draft, &result);
    std::vector<std::vector<int>> restore_before(graph->stages);
    for (int v = 0; v < graph->values; ++v) {
      if (!graph->movable[v] || !draft.bits.Get(v, -1) ||
          result.last_use[v] < 0) {
        continue;
      }
      draft.offloaded[v] = 1;
      restore_before[result.first_use[v]].push_back(v);
      ++moved;
    }
    const auto actions = evaluator.Actions(draft, restore_before, &result);
    if (result.broken) continue;  // an op with an output on the host
    const auto verdict = Validate(p, actions, kPlenty);
    ASSERT_EQ(verdict.status(), absl::OkStatus()) << seed;
    const auto simulation = Simulate(p, actions, kPlenty);
    ASSERT_EQ(simulation.status(), absl::OkStatus()) << seed;
    EXPECT_EQ(simulation->time, verdict->time) << seed;
    EXPECT_EQ(simulation->peak, verdict->peak) << seed;
    // With the evaluator's peak as budget the compute lane waits for copies.
    const Bytes tight{result.peak};
    const auto waiting = Validate(p, actions, tight);
    ASSERT_EQ(waiting.status(), absl::OkStatus()) << seed;
    EXPECT_EQ(Simulate(p, actions, tight)->time, waiting->time) << seed;
    EXPECT_GE(waiting->time, verdict->time) << seed;
  }
  EXPECT_GT(moved, 1000);
}

}  // namespace
}  // namespace ebbtide
