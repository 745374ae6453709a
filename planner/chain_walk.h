// Reads a plan out of a recurrence (planner/chain_branch.h) cell by cell.
// Private to the planner.
#ifndef EBBTIDE_PLANNER_CHAIN_WALK_H_
#define EBBTIDE_PLANNER_CHAIN_WALK_H_

#include "planner/chain_actions.h"
#include "planner/chain_branch.h"

namespace ebbtide {

// `choose(cell, m)` is the branch that makes the cell with m slots. Only what
// computes is written: AddFrees() completes the plan.
template <class Choose>
void WalkBranches(int stages, const ChainCell& cell, int64_t m,
                  const Choose& choose, ChainActions* actions) {
  const ChainBranch branch = choose(cell, m);
  if (cell.i == stages) {
    actions->push_back({ChainAction::Do::kLoss});
    return;
  }
  for (int p = cell.i; p < branch.walk_to; ++p) EmitForward(p, 0, actions);
  if (branch.way >= 0) EmitForward(branch.walk_to, branch.way + 1, actions);
  if (branch.right.i >= 0) {
    WalkBranches(stages, branch.right, m - branch.shift, choose, actions);
  }
  if (branch.backward) EmitBackward(cell.i, actions);
  if (branch.left.i >= 0) {
    WalkBranches(stages, branch.left, m, choose, actions);
  }
}

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_WALK_H_
