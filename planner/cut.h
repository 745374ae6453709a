// What must be kept or rebuilt at one instant, as a closure problem: every
// value needed later is on the device (or the host) or rebuilt at least once
// after the instant, and an op is run again only on inputs of which the same
// holds. With a price per byte the cheapest choice is one minimum cut, and the
// cut's value less price times room is a lower bound on the time of rebuilding,
// for any price: Lagrange duality on planner-research 3.2, whose argument holds
// for any number of rebuilds. Private to the planner.
#ifndef EBBTIDE_PLANNER_CUT_H_
#define EBBTIDE_PLANNER_CUT_H_

#include <limits>
#include <vector>

#include "planner/graph.h"
#include "planner/max_flow.h"

namespace ebbtide {

struct CutSolution {
  double value = 0;  // no choice is cheaper at this price
  Time cost = 0;     // of rebuilding
  int64_t kept = 0;  // bytes kept, those that are kept anyway not counted
  std::vector<char> keeps;  // of values
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
  int64_t fixed() const { return fixed_; }

  // Values larger than `room` are rebuilt where they can be: there is no room
  // to keep them.
  void SetRoom(int64_t room) { room_ = room; }

  // At `price` per byte; with price < 0 the fewest bytes at any cost.
  CutSolution Solve(double price);

 private:
  CutProblem(const Graph& graph, const std::vector<char>& replayable);
  // Free values are there at no price; must_rebuild values cannot be kept.
  void Build(const std::vector<char>& needed, const std::vector<char>& free,
             const std::vector<char>& must_rebuild);
  void Reach(const std::vector<char>& needed, const std::vector<char>& free);
  void SetCapacities(double price, double time_scale);

  const Graph& graph_;
  const std::vector<char>* replayable_;  // of ops
  std::vector<Time> time_;               // of ops
  int64_t fixed_ = 0;
  int64_t room_ = std::numeric_limits<int64_t>::max();
  std::vector<int> reached_values_;
  std::vector<int> reached_ops_;
  std::vector<int> node_;        // of values; -1: not in the network
  std::vector<int> op_node_;     // of ops
  std::vector<int> value_edge_;  // price edge by position in reached_values_
  std::vector<char> priced_;     // whether that edge has a price
  std::vector<int> op_edge_;     // time edge by position in reached_ops_
  Time total_ = 0;               // time of all reached ops
  MaxFlow flow_{0};
  int source_ = 0;
  int sink_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CUT_H_
