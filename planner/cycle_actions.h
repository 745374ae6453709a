// Writes a plan for a cycle as the actions of a chain plan. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_CYCLE_ACTIONS_H_
#define EBBTIDE_PLANNER_CYCLE_ACTIONS_H_

#include "planner/chain_actions.h"
#include "planner/cycle.h"

namespace ebbtide {

// Writes the plan for the cycle that CycleOf made of `compute`. An item that is
// released in the first gap behind its copy is offloaded there; in a later gap
// it is freed, as the host has it.
ChainActions WriteCycle(int stages, const ChainActions& compute,
                        const Cycle& cycle, const CyclePlan& plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_ACTIONS_H_
