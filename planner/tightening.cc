#include "planner/tightening.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/time/clock.h"

namespace ebbtide {

Tightening::Tightening(const Graph& graph, const GraphPlanOptions& options)
    : options_(options),
      evaluator_(graph),
      plan_{.draft = KeepAll(graph, false),
            .least_peak = std::numeric_limits<int64_t>::max(),
            .least = KeepAll(graph, false)} {
  Look(KeepAll(graph, false));
}

void Tightening::Ask(Solver within) {
  constexpr int kRounds = 14;
  constexpr double kSlack = 1e-3;
  const int64_t budget = options_.budget;
  int64_t low = 0;  // fits or asks for too little
  int64_t high = std::numeric_limits<int64_t>::max();
  int64_t limit = budget;
  for (int round = 0; round < kRounds && high - low > kSlack * budget;
       ++round) {
    if (absl::Now() >= options_.deadline && plan_.feasible) return;
    const std::optional<Draft> draft = within(limit);
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

int64_t Tightening::Look(const Draft& draft) {
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

GraphPlan Tightening::Take(const OverheadBound& bound) {
  plan_.no_plan_exists = bound.infeasible;
  plan_.bound = bound.overhead;
  if (bound.instant >= 0) plan_.bound_instants = {bound.instant};
  return std::move(plan_);
}

}  // namespace ebbtide
