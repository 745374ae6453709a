// The graph planner: first plans from the cut, refill, search, and the bound.
// Private to the planner; planner/plan.h is what callers see.
#ifndef EBBTIDE_PLANNER_GRAPH_PLAN_H_
#define EBBTIDE_PLANNER_GRAPH_PLAN_H_

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "planner/graph.h"
#include "planner/plan.h"
#include "planner/retention.h"

namespace ebbtide {

struct GraphPlanOptions {
  int64_t budget = 0;
  bool offload = false;  // allowed, and the profile has both lanes
  bool rebuild = true;
  uint64_t seed = 1;
  // Takes part of the time for the bound. Without, one instant is looked at
  // all the same, since it may show that no plan exists.
  bool bounds = true;
  int64_t evaluations = 0;  // 0: as many as the time allows
  absl::Time deadline = absl::InfiniteFuture();
  // Plans to begin with, beside those from the cut: of other budgets, say.
  absl::Span<const Draft> starts;
};

struct GraphPlan {
  bool feasible = false;
  bool no_plan_exists = false;  // proven
  Draft draft;
  Time bound = 0;                   // on the overhead
  std::vector<int> bound_instants;  // that gave it; none where nothing binds
  int64_t least_peak = 0;  // least peak of the plans that were looked at, and
                           // its plan
  Draft least;
};

// The best plan found until the deadline.
GraphPlan SolveGraph(const Graph& graph, const GraphPlanOptions& options);

// The plan of least peak found until the deadline.
Draft SolveFloor(const Graph& graph, const GraphPlanOptions& options,
                 int64_t* peak);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_GRAPH_PLAN_H_
