#include "planner/hierarchical.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/time/clock.h"
#include "planner/bound.h"
#include "planner/evaluator.h"
#include "planner/hierarchy.h"

namespace ebbtide {
namespace {

// What counts as little time to make a value: with 0 all values that parts give
// to others are kept or lost as a whole; with more they are made where they are
// wanted. Which is better depends on the graph and the budget.
constexpr double kLittle[] = {0, 0.5, 2};
constexpr int kManyOps = 20000;
// Of the step: a plan so close to its bound is not tried to be bettered.
constexpr double kCloseEnough = 1e-3;

// Asks for drafts at limits around the budget and keeps the best that fits.
class Tightening {
 public:
  Tightening(const Graph& graph, const GraphPlanOptions& options)
      : options_(options),
        evaluator_(graph),
        plan_{.draft = KeepAll(graph, false),
              .least_peak = std::numeric_limits<int64_t>::max(),
              .least = KeepAll(graph, false)} {
    Look(KeepAll(graph, false));
  }

  void Ask(const Hierarchy& hierarchy) {
    constexpr int kRounds = 14;
    constexpr double kSlack = 1e-3;
    const int64_t budget = options_.budget;
    int64_t low = 0;  // fits or asks for too little
    int64_t high = std::numeric_limits<int64_t>::max();
    int64_t limit = budget;
    for (int round = 0; round < kRounds && high - low > kSlack * budget;
         ++round) {
      if (absl::Now() >= options_.deadline && plan_.feasible) return;
      const std::optional<Draft> draft = hierarchy.Within(limit);
      const int64_t peak = draft.has_value() ? Look(*draft) : 0;
      (peak <= budget ? low : high) = limit;
      // By the excess or the slack, as long as only one end is known.
      if (low > 0 && high < std::numeric_limits<int64_t>::max()) {
        limit = low + (high - low) / 2;
      } else if (!draft.has_value()) {
        limit += limit / 2;
      } else {
        limit = std::max(limit / 2, limit + budget - peak);
        if (limit == low) ++limit;
      }
    }
  }

  bool Fits() const { return plan_.feasible; }
  bool Within(Time overhead) const {
    return plan_.feasible && overhead_ <= overhead;
  }
  GraphPlan Take() { return std::move(plan_); }

 private:
  // Its peak.
  int64_t Look(const Draft& draft) {
    evaluator_.Evaluate(draft, &evaluation_);
    if (evaluation_.broken) return std::numeric_limits<int64_t>::max() / 2;
    if (evaluation_.peak < plan_.least_peak) {
      plan_.least_peak = evaluation_.peak;
      plan_.least = draft;
    }
    if (evaluation_.peak <= options_.budget &&
        (!plan_.feasible || evaluation_.overhead < overhead_)) {
      plan_.feasible = true;
      plan_.draft = draft;
      overhead_ = evaluation_.overhead;
    }
    return evaluation_.peak;
  }

  const GraphPlanOptions& options_;
  Evaluator evaluator_;
  Evaluation evaluation_;
  GraphPlan plan_;
  Time overhead_ = 0;
};

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
    tightening.Ask(Hierarchy(graph, little, options.seed, options.evaluations,
                             options.deadline));
  }
  GraphPlan plan = tightening.Take();
  plan.no_plan_exists = bound.infeasible;
  plan.bound = bound.overhead;
  if (bound.instant >= 0) plan.bound_instants = {bound.instant};
  return plan;
}

}  // namespace ebbtide
