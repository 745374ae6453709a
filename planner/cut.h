// The values that must be kept or recomputed at one instant, as a closure
// problem: every value needed later is on the device (or the host) or
// recomputed at least once after the instant, and an op is recomputed only from
// inputs for which the same holds. With a price per byte the cheapest choice is
// one minimum cut, and the cut's value less price times room is a lower bound
// on the time of recomputation, for any price, by Lagrange duality, for any
// number of recomputations. Private to the planner.
#ifndef EBBTIDE_PLANNER_CUT_H_
#define EBBTIDE_PLANNER_CUT_H_

#include <utility>
#include <vector>

#include "planner/graph.h"
#include "planner/window_cut.h"

namespace ebbtide {

struct CutSolution {
  double value = 0;  // no choice is cheaper at this price
  Time cost = 0;     // time of recomputation
  int64_t kept = 0;  // bytes kept, those that are kept anyway not counted
  std::vector<char> keeps;  // by value
};

class CutProblem {
 public:
  // While forward op `instant` or stage `instant` - ops runs.
  static CutProblem At(const Graph& graph, int instant);
  // Not a bound but a plan's beginning: what to keep across the loss for all
  // stages. Times are changed by up to 1e-4 so that equal layers tie-break one
  // by one.
  static CutProblem ForPlan(const Graph& graph);

  // Bytes that are alive at the instant whatever is chosen.
  int64_t fixed() const { return window_.instant().fixed; }

  // Values larger than `room` are recomputed if they can be: there is no room
  // to keep them.
  void SetRoom(int64_t room);

  // At `price` per byte; with price < 0 the fewest bytes at any cost.
  CutSolution Solve(double price);

 private:
  CutProblem(const Graph& graph, WindowCut window)
      : graph_(graph), window_(std::move(window)) {}

  const Graph& graph_;
  WindowCut window_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CUT_H_
