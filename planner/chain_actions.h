// How the chain solvers write plans: first what computes, then the frees, which
// follow from it. Private to the planner.
#ifndef EBBTIDE_PLANNER_CHAIN_ACTIONS_H_
#define EBBTIDE_PLANNER_CHAIN_ACTIONS_H_

#include <vector>

#include "planner/chain_plan.h"

namespace ebbtide {

using ChainActions = std::vector<ChainAction>;

inline void EmitForward(int stage, int save, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kForward, stage, save});
}

inline void EmitBackward(int stage, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kBackward, stage});
}

// Frees everything but x[0] directly after its last use before it is made
// again, in the canonical order. `actions` has no frees yet.
ChainActions AddFrees(int stages, const ChainActions& actions);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_ACTIONS_H_
