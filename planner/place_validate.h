// The independent validator of placements: each two buffers that share an
// address are compared in time. Shares no code with what places.
#ifndef EBBTIDE_PLANNER_PLACE_VALIDATE_H_
#define EBBTIDE_PLANNER_PLACE_VALIDATE_H_

#include "absl/status/status.h"
#include "planner/place_problem.h"

namespace ebbtide {

// FailedPrecondition, naming the buffers, where an offset is missing, negative,
// not aligned or not the fixed one, two buffers lie over each other while both
// may be there, or the height is not the highest end. O(n^2) in the worst case.
absl::Status ValidatePlacement(const PlaceProblem& problem,
                               const Placement& placement);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_VALIDATE_H_
