// Upper bounds on the bytes on the host at an instant, in any plan: the bytes
// that the lanes have the time to copy. Private to the planner.
//
// Bytes on the host went out before the instant. In the forward pass a value is
// offloaded after its release at the earliest, and for any op j the bytes
// offloaded by an instant are at most those of values released before op j
// ends, and those that the D2H lane copies from then on. Values that are used
// again are restored after the instant, in the backward pass, before the last
// stage that needs anything.
#ifndef EBBTIDE_PLANNER_HOST_ROOM_H_
#define EBBTIDE_PLANNER_HOST_ROOM_H_

#include <limits>
#include <vector>

#include "planner/graph.h"

namespace ebbtide {

// `bytes`, and as many more per unit of overhead before and after the instant.
struct HostRoom {
  double bytes = 0;
  double per_before = 0;
  double per_after = 0;
};

// The same of some values only: those released by op `released_from` or a later
// one that a stage up to `needed_until` needs first after the instant. Those
// released late had less time to leave, those needed soon have less time to
// come back: a cut does not count a copy that does not serve the first need,
// because the value is then recomputed in between.
struct HostRow {
  HostRoom room;
  int released_from = 0;
  int needed_until = std::numeric_limits<int>::max();
};

class HostRooms {
 public:
  HostRooms(const Graph& graph, bool offload);

  // All of them hold at once; one of zeros where nothing can be offloaded.
  std::vector<HostRoom> At(int instant) const;
  // Rows that hold at once, for stages; none where nothing can be offloaded.
  std::vector<HostRow> RowsAt(int instant) const;

 private:
  HostRoom Out(int instant, int from) const;
  HostRoom In(int instant, int until) const;

  const Graph& graph_;
  const Profile& profile_;
  const bool moves_;
  const int ops_;
  std::vector<Time> start_;  // by instant and for the tail, without overhead
  // By op, and behind them: the reduction of the rate times the time before,
  // from the best op before.
  std::vector<double> late_;
  Time last_use_ = 0;  // start of the last stage that needs anything
  double rounding_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_HOST_ROOM_H_
