// Checks a chain plan by brute force against the rules of planner/chain_plan.h,
// the canonical order included. Shares no code with the simulator or a solver.
#ifndef EBBTIDE_PLANNER_CHAIN_VALIDATE_H_
#define EBBTIDE_PLANNER_CHAIN_VALIDATE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

struct ChainVerdict {
  Time time = 0;
  Bytes peak{};
};

// Returns the plan's costs, or FailedPrecondition with the first rule it
// breaks.
absl::StatusOr<ChainVerdict> ValidateChain(
    const Chain& chain, absl::Span<const ChainAction> actions, Bytes budget);

// Also that the plan is feasible and claims the time and peak it takes.
absl::Status ValidateChainPlan(const Chain& chain, const ChainPlan& plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_VALIDATE_H_
