// Plans for chains whose weights, gradients and optimizer state may leave the
// device: `weights`, its greedy forms and `joint`. Private to the planner.
#ifndef EBBTIDE_PLANNER_WEIGHT_PLAN_H_
#define EBBTIDE_PLANNER_WEIGHT_PLAN_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

// weights, greedy, greedy-star: all values are kept, in the chain's own ways.
// joint: they are kept, offloaded or recomputed as well.
bool IsWeightSolver(absl::string_view solver);

// As MakeChainPlan, for these solvers and a valid chain with weights. Only
// `joint` uses threads.
absl::StatusOr<ChainPlan> MakeWeightPlan(const Chain& chain, Bytes budget,
                                         absl::string_view solver, int threads);

// The actions of a plan that compute.
std::vector<ChainAction> ComputeActions(const std::vector<ChainAction>& all);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_WEIGHT_PLAN_H_
