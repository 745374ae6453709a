// Random plans, for tests of what follows plans: solver "random" of MakePlan.
//
// A plan of a solver is a good one, and good plans are all alike: each value is
// dropped at most once, comes back just in time, and moves as soon as it may. A
// random plan is any list of actions that the validator accepts: frees and
// offloads at any instant from a value's release on, values moved again in the
// backward pass, restores before any stage up to the one that needs them,
// rebuilds that nothing asked for, intermediate values dropped and rebuilt
// again before the same stage. How often each of these happens is drawn for the
// plan as a whole.
#ifndef EBBTIDE_PLANNER_RANDOM_PLAN_H_
#define EBBTIDE_PLANNER_RANDOM_PLAN_H_

#include <cstdint>
#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"

namespace ebbtide {

// The actions of the plan with that seed. Their peak is what it is: there is no
// budget. O((ops + stages) * values) beside the ops that are run again, which
// are at most a few times the ops of the profile, and one more per value and
// stage that needs it.
std::vector<Action> RandomActions(const Graph& graph, uint64_t seed,
                                  bool offload);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_RANDOM_PLAN_H_
