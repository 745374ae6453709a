// The event simulator for planner/chain_plan.h: computes the time and the peak
// of a chain plan, with the lanes and the waiting rules of planner/simulate.h.
// Live bytes are x[0] and every x, xb and y on the device; an action adds what
// it makes and its workspace before it frees anything.
#ifndef EBBTIDE_PLANNER_CHAIN_SIMULATE_H_
#define EBBTIDE_PLANNER_CHAIN_SIMULATE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

struct ChainSimulation {
  Time time = 0;
  Time stall = 0;  // part of it that the compute lane waited
  Bytes peak{};
};

// ResourceExhausted where the plan exceeds `budget`, InvalidArgument where it
// does what cannot be done; both name the action. `chain` must be valid.
absl::StatusOr<ChainSimulation> SimulateChain(
    const Chain& chain, absl::Span<const ChainAction> actions, Bytes budget);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_SIMULATE_H_
