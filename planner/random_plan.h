// Random plans, for tests of what follows plans: solver "random" of MakePlan.
//
// A plan of a solver is a good one, and good plans are all alike: each value is
// dropped at most once, comes back just in time, and is offloaded as soon as it
// may be. A random plan is any list of actions that the validator accepts:
// frees and offloads at any instant from a value's release on, values offloaded
// again in the backward pass, restores before any stage up to the one that
// needs them, recomputations that nothing asked for, intermediate values
// dropped and recomputed again before the same stage. How often each of these
// happens is drawn for the plan as a whole.
#ifndef EBBTIDE_PLANNER_RANDOM_PLAN_H_
#define EBBTIDE_PLANNER_RANDOM_PLAN_H_

#include <cstdint>
#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"

namespace ebbtide {

// The actions of the plan with that seed. Their peak is what it is: there is no
// budget. O((ops + stages) * values) beside the recomputed ops, which are at
// most a few times the ops of the profile, and one more per value and stage
// that needs it.
std::vector<Action> RandomActions(const Graph& graph, uint64_t seed,
                                  bool offload);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_RANDOM_PLAN_H_
