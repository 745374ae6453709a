// A lower bound on the time that rebuilding and waiting for copies cost within
// a budget: the best cut bound (planner/cut.h) over a choice of instants.
//
// Offload is extra room: by an instant the D2H lane has moved at most its rate
// times the time so far, which is the time of the ops and stages before it and
// the overhead before it; the H2D lane has the time after it. What the cut
// counts is rebuilt after the instant and gives the D2H lane no time: to move
// more there, a plan waits or rebuilds before the instant, on top of the cut.
// Private to the planner.
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

// Bytes that may be on the host at an instant: `bytes`, and as many more per
// unit of overhead before and after it.
struct HostRoom {
  double bytes = 0;
  double per_before = 0;
  double per_after = 0;
};

// All of them hold at once; one of zeros where nothing can be offloaded.
std::vector<HostRoom> HostRooms(const Graph& graph, bool offload, int instant);

// `stop` is asked between instants; the bound is valid whenever it ends.
OverheadBound BoundOverhead(const Graph& graph, int64_t budget, bool offload,
                            const std::function<bool()>& stop);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BOUND_H_
