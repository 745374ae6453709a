// Writes a plan for a cycle as the actions of a chain plan. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_CYCLE_ACTIONS_H_
#define EBBTIDE_PLANNER_CYCLE_ACTIONS_H_

#include "planner/chain_actions.h"
#include "planner/cycle.h"

namespace ebbtide {

// Of the cycle that CycleOf made of `compute`. What leaves in the first gap
// behind its copy does so by the offload; in a later one it is freed, as the
// host has it.
ChainActions WriteCycle(int stages, const ChainActions& compute,
                        const Cycle& cycle, const CyclePlan& plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_ACTIONS_H_
