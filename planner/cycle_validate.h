// The independent validator of plans that move weights: the actions are carried
// out step after step, one by one. Shares no code with the solvers and
// planner/cycle_simulate.h.
#ifndef EBBTIDE_PLANNER_CYCLE_VALIDATE_H_
#define EBBTIDE_PLANNER_CYCLE_VALIDATE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/chain_validate.h"
#include "planner/units.h"

namespace ebbtide {

// The rules of planner/chain_plan.h for a chain with weights. The time is that
// of planner/cycle_simulate.h. FailedPrecondition, naming the action and the
// rule, where one is broken or the budget or the host's room exceeded.
absl::StatusOr<ChainVerdict> ValidateCycle(
    const Chain& chain, absl::Span<const ChainAction> actions, Bytes budget);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_VALIDATE_H_
