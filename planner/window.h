// A few decisions of a plan made anew, all others as they are, by branch and
// bound over the exact evaluation. Private to the planner.
//
// A decision sets if a value stays over some stages, [begin, end) of its bits.
// Decisions are made in the order of `begin`: everything up to the stage of the
// first open one is then known. Beyond it every recomputed op counts once at
// least if something later needs it and it is gone, and once for every stage
// that finds it missing whatever is decided. Bytes that are surely used again
// count before the first open decision.
#ifndef EBBTIDE_PLANNER_WINDOW_H_
#define EBBTIDE_PLANNER_WINDOW_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/graph.h"
#include "planner/plan_state.h"

namespace ebbtide {

struct Decision {
  int value = 0;
  int begin = 0;  // -1: the loss
  int end = 0;
};

class Window {
 public:
  Window(const Graph& graph, int64_t budget)
      : graph_(graph), budget_(budget), mark_(graph.ops, 0) {}

  // Makes the choice of least overhead within the budget in `state`, which has
  // no changes, is within the budget, and moves nothing. False if none is
  // better: the plan stays as it is. Decisions of one value do not overlap.
  // At most 2^(decisions + 1) nodes; `stop`, asked now and then, ends it with
  // the best choice so far.
  bool Solve(std::vector<Decision> decisions, const std::function<bool()>& stop,
             PlanState* state);

  int64_t nodes() const { return nodes_; }  // nodes of all trees

 private:
  // Facts that hold whatever the decisions before one are.
  struct Level {
    int open = 0;               // stage of the decision; stages: none is left
    std::vector<int> needed;    // values, by stages behind it
    std::vector<char> counted;  // ops, in `least`
    Time least = 0;             // time of recomputation behind it
  };

  void MakeLevels();
  bool MayBeThere(int v, int t) const;
  std::vector<int> Unavoidable(int t);
  Time Least(size_t k);
  Time Missing(const Level& level);
  bool Unsure(int v, int t) const;
  bool SurelyOver(int from, int to) const;
  bool IsThereAfter(int v, int t) const;
  void Set(const Decision& decision, char bit);
  void Apply();
  void Explore(size_t k, const std::function<bool()>& stop);

  const Graph& graph_;
  const int64_t budget_;
  PlanState* state_ = nullptr;
  std::vector<Decision> decisions_;
  std::vector<Level> levels_;
  std::vector<char> now_;
  std::vector<char> best_;  // empty: the plan as it was
  Time best_overhead_ = 0;
  int64_t nodes_ = 0;
  bool stopped_ = false;
  std::vector<char> mark_;  // by op, zero between calls
  std::vector<int> queue_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_WINDOW_H_
