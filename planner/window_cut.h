// The closure problem of planner/cut.h for one window: from an instant to a
// stage. Every value needed in the window is there at the instant (kept) or
// recomputed in the window, and an op is recomputed only from inputs for which
// the same holds. On top of the price per byte each value can carry a surcharge
// for being kept and a reward for being had (kept or recomputed), and single
// values can be decided to be kept or not. Private to the planner.
#ifndef EBBTIDE_PLANNER_WINDOW_CUT_H_
#define EBBTIDE_PLANNER_WINDOW_CUT_H_

#include <utility>
#include <vector>

#include "planner/graph.h"
#include "planner/instant.h"
#include "planner/max_flow.h"

namespace ebbtide {

class WindowCut {
 public:
  // `wanted` values are not needed, but may carry a reward or become needed.
  // Ops are recomputed in `time`, those that `replayable` allows.
  WindowCut(const Graph& graph, Instant instant, const std::vector<int>& wanted,
            const std::vector<char>& replayable, std::vector<Time> time);
  // All ops that some plan may recompute, in their own time.
  WindowCut(const Graph& graph, Instant instant, const std::vector<int>& wanted)
      : WindowCut(graph, std::move(instant), wanted, graph.may_replay,
                  graph.time) {}

  // True if the value is part of the problem: neither free nor out of reach.
  bool Has(int v) const { return node_[v] >= 0; }
  // True if it is, and leaves a choice.
  bool IsOpen(int v) const {
    return Has(v) && state_[v] == State::kOpen && CanRebuild(v);
  }
  bool CanRebuild(int v) const { return op_node_[graph_.op[v]] >= 0; }
  bool IsKept(int v) const { return state_[v] == State::kKept; }
  bool IsNeeded(int v) const { return needed_[v]; }
  const std::vector<int>& values() const { return values_; }
  const Instant& instant() const { return instant_; }

  // Takes back all decisions.
  void Reset();
  // Kept at no price. Bytes are the caller's to count.
  void Keep(int v) { state_[v] = State::kKept; }
  // Not kept. The value must have an op that may be recomputed.
  void Drop(int v) { state_[v] = State::kDropped; }
  void Need(int v) { needed_[v] = 1; }

  struct Prices {
    double per_byte = 0;
    const std::vector<double>* surcharge = nullptr;  // by value; or none
    const std::vector<double>* reward = nullptr;     // the same
  };
  // Returns the least time of recomputation, plus prices, plus the rewards that
  // are not had. The rewards of values that are needed are nothing.
  double Solve(const Prices& prices);
  // Keeps the fewest bytes, whatever the recomputation costs.
  void SolveFewest();

  // Results of the last choice found.
  bool Keeps(int v) const { return Got(v) && !Rebuilds(v); }
  bool Got(int v) const { return flow_.OnSourceSide(node_[v]); }
  Time RebuildTime() const;

 private:
  enum class State : char { kOpen, kKept, kDropped };

  bool Rebuilds(int v) const {
    const int node = op_node_[graph_.op[v]];
    return node >= 0 && flow_.OnSourceSide(node);
  }
  void Reach(const std::vector<int>& wanted,
             const std::vector<char>& replayable);
  void AddEdges();
  int64_t Capacity(double worth) const;

  const Graph& graph_;
  Instant instant_;
  std::vector<Time> time_;      // by op
  double scale_ = 0;            // units of capacity per unit of time
  std::vector<char> needed_;    // by value
  std::vector<State> state_;    // by value
  std::vector<int> values_;     // that are part of the problem
  std::vector<int> ops_;        // the same
  std::vector<int> node_;       // by value; -1: not part of the problem
  std::vector<int> op_node_;    // by op
  std::vector<int> want_edge_;  // by position in values_
  std::vector<int> keep_edge_;  // by position in values_
  std::vector<int> op_edge_;    // by position in ops_
  MaxFlow flow_{0};
  int source_ = 0;
  int sink_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_WINDOW_CUT_H_
