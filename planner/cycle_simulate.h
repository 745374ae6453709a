// The event simulator for planner/cycle.h: computes the time and the peak of a
// cycle's plan, with the lanes and the waiting rules of planner/simulate.h and
// a lane for updates on the host. Private to the planner.
//
// A copy out is asked for as soon as an op has written what leaves; its bytes
// leave when it has ended and the gap has begun. Bytes are taken again when the
// item is asked back, which waits for them.
#ifndef EBBTIDE_PLANNER_CYCLE_SIMULATE_H_
#define EBBTIDE_PLANNER_CYCLE_SIMULATE_H_

#include "planner/cycle.h"
#include "planner/units.h"

namespace ebbtide {

struct CycleSimulation {
  bool fits = false;  // within the budget and the room of the host
  Time time = 0;      // time of a step, see SimulateCycle
  Bytes peak{};
};

// The longest of the steps until one leaves the lanes as the one before it did,
// at most kCycleSteps, where the first finds the lanes idle; and no less than
// any lane works for a step.
CycleSimulation SimulateCycle(const Cycle& cycle, const CyclePlan& plan,
                              Bytes budget);

inline constexpr int kCycleSteps = 50;

// Sets `back` of the offloaded gaps: in the order of need, each as early as it
// does not make an op wait for bytes. False if the items needed at once do not
// fit.
bool PlaceReturns(const Cycle& cycle, Bytes budget, CyclePlan* plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_SIMULATE_H_
