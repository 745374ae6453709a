#include "planner/hierarchical.h"

#include "absl/time/clock.h"
#include "planner/bound.h"
#include "planner/hierarchy.h"
#include "planner/tightening.h"

namespace ebbtide {
namespace {

// Thresholds for a short time to make a value: with 0 all values that parts
// give to others are kept or dropped as a whole; with more they are made where
// they are needed. Which is better depends on the graph and the budget.
constexpr double kLittle[] = {0, 0.5, 2};
constexpr int kManyOps = 20000;
// Share of the step: a plan so close to its bound is not improved further.
constexpr double kCloseEnough = 1e-3;

}  // namespace

GraphPlan SolveHierarchical(const Graph& graph,
                            const GraphPlanOptions& options) {
  Tightening tightening(graph, options);
  const OverheadBound bound =
      BoundOverhead(graph, options.budget, options.offload,
                    [&] { return absl::Now() >= options.deadline; });
  const Time enough = bound.overhead + kCloseEnough * BaseTime(*graph.profile);
  for (double little : kLittle) {
    if (!options.rebuild || tightening.Within(enough)) break;
    // Where nothing fits, one look says what would.
    if (bound.infeasible && little > 0) break;
    // Large graphs get another look only where the first finds nothing.
    if (tightening.Fits() && graph.ops > kManyOps) break;
    if (little > 0 && absl::Now() >= options.deadline) break;
    const Hierarchy hierarchy(graph, little, options.seed, options.evaluations,
                              options.deadline);
    tightening.Ask([&](int64_t limit) { return hierarchy.Within(limit); });
  }
  return tightening.Take(bound);
}

}  // namespace ebbtide
