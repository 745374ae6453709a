// Plans whose buffers find room in the budget, not only their bytes.
//
// A plan's peak counts live bytes. Where they lie may take more: the height of
// a placement (planner/place.h). What that is over the budget goes back to the
// solver as a tighter budget, until the placement fits or none is better.
#ifndef EBBTIDE_PLANNER_PLACED_PLAN_H_
#define EBBTIDE_PLANNER_PLACED_PLAN_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/place_problem.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

struct PlanLayout {
  // What is there at every instant and has its place for long; the rest is to
  // be placed above it. Instants are the actions, and after them the tail.
  Bytes stays{};
  PlaceProblem problem;
};

// The buffers of a valid plan: values from the action that makes or restores
// them to the one that frees them or, where they are offloaded, to the first of
// the instant by which `departures` (planner/simulate.h) has them gone; and for
// each action one buffer of what is alive then and no value.
PlanLayout LayoutOf(const Profile& profile, absl::Span<const Action> actions,
                    absl::Span<const int> departures);

struct PlacedPlan {
  Plan plan;
  Bytes height{};  // of what stays and the placement above it
  int rounds = 0;  // plans that were made
};

inline constexpr int kMostRounds = 5;

using Solver = absl::FunctionRef<absl::StatusOr<Plan>(const Profile& profile,
                                                      const PlanOptions&)>;

// The first plan of `solve` for options.budget, or for less, whose height is
// within `room`, and where none of kMostRounds is, the lowest. A plan that is
// not feasible ends it: it is the result only where it is the first. The
// solver's errors.
absl::StatusOr<PlacedPlan> MakePlacedPlan(const Profile& profile,
                                          const PlanOptions& options,
                                          Bytes room, Solver solve = MakePlan);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACED_PLAN_H_
