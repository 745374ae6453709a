#include "planner/tightening.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/evaluator.h"
#include "tests/planner/networks.h"

namespace ebbtide {
namespace {

// Keeps the first values across the loss, and no more.
Draft Keeping(const Graph& graph, int values) {
  Draft draft = KeepAll(graph, false);
  for (int v = values; v < graph.values; ++v) draft.bits.SetRow(v, 0);
  return draft;
}

// A solver that takes values for half or for twice of their size, and so asks
// for too little or too much until it gets other limits.
TEST(TighteningTest, FindsTheLimitAtWhichTheBytesFit) {
  NetworkBuilder n;
  int x = n.Add("first", 10, 100, {}, {}, true);
  for (int k = 0; k < 60; ++k) x = n.Add("next", 10, 100, {x}, {x}, true);
  const Profile p = n.Finish();
  const auto graph = CompileGraph(p, true);
  Evaluator evaluator(*graph);
  Evaluation result;
  for (int64_t thought : {50, 100, 200}) {
    for (int64_t budget : {2500, 4000, 5900}) {
      Time best = BaseTime(p) * 100;
      for (int keep = 0; keep <= graph->values; ++keep) {
        evaluator.Evaluate(Keeping(*graph, keep), &result);
        if (result.peak <= budget) best = std::min(best, result.overhead);
      }
      GraphPlanOptions options;
      options.budget = budget;
      Tightening tightening(*graph, options);
      tightening.Ask([&](int64_t limit) -> std::optional<Draft> {
        const int64_t keep = limit / thought;
        return Keeping(
            *graph, static_cast<int>(std::min<int64_t>(keep, graph->values)));
      });
      EXPECT_TRUE(tightening.Within(best)) << thought << " " << budget;
      EXPECT_FALSE(best > 0 && tightening.Within(best - 1));
      EXPECT_TRUE(tightening.Take({}).feasible);
    }
  }
}

}  // namespace
}  // namespace ebbtide
