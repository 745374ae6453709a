// For solvers that know the bytes of their plans only nearly: asks for plans at
// limits around the budget and keeps the fastest one whose exact curve of live
// bytes fits. Private to the planner.
#ifndef EBBTIDE_PLANNER_TIGHTENING_H_
#define EBBTIDE_PLANNER_TIGHTENING_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "planner/bound.h"
#include "planner/evaluator.h"
#include "planner/graph.h"
#include "planner/graph_plan.h"
#include "planner/retention.h"

namespace ebbtide {

class Tightening {
 public:
  // Both must stay alive.
  Tightening(const Graph& graph, const GraphPlanOptions& options);

  // The fastest draft that says of itself that it stays within the limit; none
  // if there is none.
  using Solver = absl::FunctionRef<std::optional<Draft>(int64_t limit)>;
  void Ask(Solver within);
  // Keeps the draft if it fits and is the fastest so far. Returns its peak.
  int64_t Look(const Draft& draft);

  bool Fits() const { return plan_.feasible; }
  bool Within(Time overhead) const {
    return plan_.feasible && overhead_ <= overhead;
  }
  GraphPlan Take(const OverheadBound& bound);

 private:
  const GraphPlanOptions& options_;
  Evaluator evaluator_;
  Evaluation evaluation_;
  GraphPlan plan_;
  Time overhead_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_TIGHTENING_H_
