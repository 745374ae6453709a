// How the chain solvers write the parts of a plan. Private to the planner.
#ifndef EBBTIDE_PLANNER_ROTOR_ACTIONS_H_
#define EBBTIDE_PLANNER_ROTOR_ACTIONS_H_

#include <vector>

#include "planner/chain_plan.h"

namespace ebbtide {

using ChainActions = std::vector<ChainAction>;

inline void EmitForward(int stage, int save, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kForward, stage, save});
}

inline void EmitFree(ChainAction::Item item, int stage, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kFree, stage, 0, item});
}

// The backward of a stage, whose saved set goes with it.
inline void EmitBackward(int stage, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kBackward, stage});
  EmitFree(ChainAction::Item::kXb, stage + 1, actions);
}

// From x[i], which stays, to x[j], keeping nothing between.
inline void EmitWalk(int i, int j, ChainActions* actions) {
  for (int p = i; p < j; ++p) {
    EmitForward(p, 0, actions);
    if (p > i) EmitFree(ChainAction::Item::kX, p, actions);
  }
}

// Puts the frees of one place in the canonical order.
void SortFrees(ChainActions* actions);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ROTOR_ACTIONS_H_
