// The end of every graph solver: its actions become a plan only if simulator
// and validator agree. Private to the planner.
#ifndef EBBTIDE_PLANNER_FINISH_H_
#define EBBTIDE_PLANNER_FINISH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/simulate.h"

namespace ebbtide {

// Fills in the actions of `plan`, whose solver and budget are set, and what the
// simulator says of them. Internal, naming the solver, where either refuses
// them.
absl::StatusOr<Simulation> FinishPlan(const Profile& profile,
                                      std::vector<Action> actions, Plan* plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_FINISH_H_
