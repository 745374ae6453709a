// A lower bound on the time of any plan of a cycle: a linear program in which
// bytes are copied in any fractions. Private to planner/ilp and the program.
#ifndef EBBTIDE_PLANNER_ILP_CYCLE_BOUND_H_
#define EBBTIDE_PLANNER_ILP_CYCLE_BOUND_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/chain.h"
#include "planner/cycle.h"
#include "planner/units.h"

namespace ebbtide {

struct CycleBound {
  bool feasible = false;  // else there is no plan
  Time time = 0;          // time of a step; the ops' alone, if the time limit
                          // was reached
};

// Each op is preceded by a wait of any length, and in either a lane copies what
// it has time for. Bytes count as gone once they have been copied out, and as
// here from when they are copied in. An update is done by the host in any
// share. Internal where HiGHS fails.
absl::StatusOr<CycleBound> BoundCycle(
    const Cycle& cycle, Bytes budget,
    absl::Duration time_limit = absl::InfiniteDuration());

// The bound for a chain with weights whose values are all kept; or, with
// `values_free`, only there while an op works on them, which no plan is faster
// than.
absl::StatusOr<CycleBound> BoundWeights(const Chain& chain, Bytes budget,
                                        bool values_free,
                                        absl::Duration time_limit);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_CYCLE_BOUND_H_
