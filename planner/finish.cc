#include "planner/finish.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/validate.h"

namespace ebbtide {

absl::StatusOr<Simulation> FinishPlan(const Profile& profile,
                                      std::vector<Action> actions, Plan* plan) {
  const auto refused = [plan](const absl::Status& status) {
    return absl::InternalError(
        absl::StrCat("solver ", plan->solver, ": ", status.message()));
  };
  plan->actions = std::move(actions);
  auto simulation = Simulate(profile, plan->actions, plan->budget);
  if (!simulation.ok()) return refused(simulation.status());
  plan->feasible = true;
  plan->time = simulation->time;
  plan->peak = simulation->peak;
  if (auto s = ValidatePlan(profile, *plan); !s.ok()) return refused(s);
  return simulation;
}

}  // namespace ebbtide
