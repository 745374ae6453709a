// The hierarchical solver, after HiRemate (Gusak et al., ICML 2025): a graph is
// partitioned, equal parts are solved once, each for a menu of options, and
// the options are merged level by level. Private to the planner.
//
// Plans do not offload. The bytes that the parts report are close to the truth
// but not the truth: the merge is repeated, for less or for more, until the
// exact curve of live bytes just fits. O(ops log ops) and what the distinct
// parts take.
#ifndef EBBTIDE_PLANNER_HIERARCHICAL_H_
#define EBBTIDE_PLANNER_HIERARCHICAL_H_

#include "planner/graph.h"
#include "planner/graph_plan.h"

namespace ebbtide {

// As SolveGraph; deterministic for a given seed and number of evaluations, and
// without a number too, as long as the deadline ends nothing.
GraphPlan SolveHierarchical(const Graph& graph,
                            const GraphPlanOptions& options);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_HIERARCHICAL_H_
