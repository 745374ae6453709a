// A lower bound on the time that recomputation and waiting for copies cost
// within a budget: the best cut bound (planner/cut.h) over a choice of
// instants.
//
// Offload is extra room (planner/host_room.h). The values that the cut
// recomputes come after the instant and give the D2H lane no time: to have more
// offloaded by then, a plan waits or recomputes before the instant, on top of
// the cut. Private to the planner.
#ifndef EBBTIDE_PLANNER_BOUND_H_
#define EBBTIDE_PLANNER_BOUND_H_

#include <functional>
#include <vector>

#include "planner/cut.h"
#include "planner/graph.h"
#include "planner/units.h"

namespace ebbtide {

struct InstantBound {
  int instant = -1;
  Time overhead = 0;
  double price = 0;  // per byte, that gave it
};

struct OverheadBound {
  Time overhead = 0;
  bool infeasible = false;             // no plan at all is within the budget
  int instant = -1;                    // that gave it
  std::vector<InstantBound> instants;  // all that were looked at
};

// `stop` is asked between instants; the bound is valid whenever it ends.
OverheadBound BoundOverhead(const Graph& graph, int64_t budget, bool offload,
                            const std::function<bool()>& stop);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BOUND_H_
