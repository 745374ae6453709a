// Checks a graph plan by brute force, action by action, against the rules in
// planner/plan.h and the memory model in planner/profile.h. Shares no code with
// the simulator or a solver and is quadratic on purpose.
#ifndef EBBTIDE_PLANNER_VALIDATE_H_
#define EBBTIDE_PLANNER_VALIDATE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

struct Verdict {
  Time time = 0;
  Bytes peak{};
};

// Returns the plan's costs, or FailedPrecondition with the first rule it
// breaks: an op's input or a stage's need that is not on the device, bytes
// above `budget` at an instant, a value freed before `released` or twice, an
// offload or restore out of order, a value left over, a recomputed op that is
// not replayable or has all its outputs on the device, a value kept across the
// loss that is not retainable.
absl::StatusOr<Verdict> Validate(const Profile& profile,
                                 absl::Span<const Action> actions,
                                 Bytes budget);

// Also that the plan is feasible and claims the time and peak it takes.
absl::Status ValidatePlan(const Profile& profile, const Plan& plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_VALIDATE_H_
