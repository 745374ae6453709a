// The greedy choice of what leaves the device in a cycle: Greedy and Greedy* of
// X. Zhao's slides on weight offloading (Inria; the algorithms of
// hal-03580767). With lanes that take no time, the item goes next that covers
// most of what live bytes exceed the budget by, summed over the ops, until
// nothing does. Private to the planner.
#ifndef EBBTIDE_PLANNER_CYCLE_GREEDY_H_
#define EBBTIDE_PLANNER_CYCLE_GREEDY_H_

#include <optional>

#include "planner/cycle.h"
#include "planner/units.h"

namespace ebbtide {

struct GreedyOptions {
  // Each item leaves once in a step: Greedy. Else it may leave in every gap:
  // Greedy*.
  bool once = false;
  // Weight of the bytes of an item that is offloaded in only one of its gaps,
  // because it is copied less: out and in instead of out and twice in.
  double single = 1.5;
};

// Adds offloaded gaps to `plan`, with no returns placed. None if such a choice
// does not reach the budget.
std::optional<CyclePlan> ChooseGreedily(const Cycle& cycle, Bytes budget,
                                        const GreedyOptions& options,
                                        CyclePlan plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_GREEDY_H_
