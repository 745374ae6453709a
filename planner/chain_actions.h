// Helpers with which the chain solvers write plans: first the computing
// actions, then the frees, which follow from them. Private to the planner.
#ifndef EBBTIDE_PLANNER_CHAIN_ACTIONS_H_
#define EBBTIDE_PLANNER_CHAIN_ACTIONS_H_

#include <vector>

#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

using ChainActions = std::vector<ChainAction>;

inline void EmitForward(int stage, int save, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kForward, stage, save});
}

inline void EmitBackward(int stage, ChainActions* actions) {
  actions->push_back({ChainAction::Do::kBackward, stage});
}

// Every stage saved in its own way, nothing run twice; without frees.
ChainActions KeepAll(int stages);

// Frees everything but x[0] after its last use before it is recomputed, in the
// canonical order. `actions` has no frees yet.
ChainActions AddFrees(int stages, const ChainActions& actions);

// The position of the loss.
int LossAt(const ChainActions& actions);

// Costs of a computing action.
struct ComputeCost {
  Time time = 0;
  Bytes bytes{};   // alive while it runs, nothing moved
  Bytes before{};  // alive before it runs
};

// Costs of `actions`, which only compute.
std::vector<ComputeCost> ComputeCosts(const Chain& chain,
                                      const ChainActions& actions);

// True if a forward or backward reads x[value], alone or in its saved set, as
// `item` says; a backward reads the saved set of its own stage.
bool ReadsValue(const ChainAction& action, int value, ChainAction::Item item);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_ACTIONS_H_
