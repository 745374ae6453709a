// Demand eviction as a plan: solvers "demand" and "dtr" of MakePlan. They
// follow a step without a plan, in which values are evicted one by one as
// memory runs short, as the runtime does before and between plans.
//
// Both solvers go through the step alike and decide with what is known by then.
// When an op, a stage or a recomputation does not fit, released values are
// evicted one by one until it fits or none is left. A stage that needs an
// evicted value has it recomputed by the ops that are missing; a value without
// further use is freed at once. Only the order differs:
//   demand  planner/eviction_order.h, as the runtime; the cost is that of the
//           ops that would be recomputed, the next use may be that of an
//           evicted value that is recomputed from this one.
//   dtr     h_DTR with e* exact, of Kirisame et al., Dynamic Tensor
//           Rematerialization, ICLR 2021, section 4.1: the most bytes by time
//           since the last use by the cost of the value's op and of its evicted
//           neighbourhood.
#ifndef EBBTIDE_PLANNER_DEMAND_H_
#define EBBTIDE_PLANNER_DEMAND_H_

#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"
#include "planner/retention.h"

namespace ebbtide {

enum class DemandOrder { kNextUse, kDtr };

// Nothing is offloaded. The peak is above `budget` where nothing was left to
// evict. For each value that goes O(values), and what is evicted around each
// candidate.
std::vector<Action> DemandActions(const Graph& graph, int64_t budget,
                                  DemandOrder order);

// Returns the same plan as a draft without offloads. A draft recomputes an op
// once before each stage, where demand may do so several times: the draft may
// take less time and more bytes.
Draft DemandDraft(const Graph& graph, int64_t budget, DemandOrder order);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_DEMAND_H_
