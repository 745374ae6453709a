// Demand eviction as a plan: solvers "demand" and "dtr" of MakePlan. What a
// step takes when nothing was planned, and values go one by one as memory runs
// short: what the runtime does before and between plans.
//
// Both solvers go through the step alike and decide with what is known by then.
// When an op, a stage or a rerun does not fit, released values leave one by one
// until it fits or none is left. A stage that needs what has left has it
// rebuilt by the ops that are missing; what nobody asks for any more is freed
// at once. Only the order differs:
//   demand  planner/eviction_order.h, as the runtime; the cost is that of the
//           ops that would run again, the next use may be that of an evicted
//           value that is rebuilt from this one.
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
