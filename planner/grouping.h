// Ops grouped and groups grouped, bottom up: the first half of the partition
// (planner/partition.h says how). Private to the planner.
#ifndef EBBTIDE_PLANNER_GROUPING_H_
#define EBBTIDE_PLANNER_GROUPING_H_

#include <vector>

#include "planner/graph.h"
#include "planner/uses.h"

namespace ebbtide {

// Forward ops [begin, end).
struct OpGroup {
  int begin = 0;
  int end = 0;
  std::vector<OpGroup> inside;  // in order; empty: one op
};

// The groups on top, in order; all ops are in one of them.
std::vector<OpGroup> GroupOps(const Graph& graph, const Uses& uses);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_GROUPING_H_
