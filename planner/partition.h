// A forward graph cut into parts, the parts into parts, for the hierarchical
// solver: H-Partition of HiRemate (Gusak et al., ICML 2025), bottom up. Private
// to the planner.
//
// As there, groups of nodes become nodes, the best group first, until few are
// left. Candidates are linear sequences and flows (what lies between a node and
// the node where its paths meet again, with and without both); the best has the
// highest -(bytes entering + bytes leaving) * ops^0.5. Unlike there, a group is
// always a run of consecutive ops, with whatever else runs between: forward and
// backward order are fixed, and so every part has one interval of each. Where
// no candidate is left, the order is cut where fewest bytes cross.
#ifndef EBBTIDE_PLANNER_PARTITION_H_
#define EBBTIDE_PLANNER_PARTITION_H_

#include <vector>

#include "planner/graph.h"
#include "planner/uses.h"

namespace ebbtide {

// Caps of the original: a group has at least kLeastGroup nodes, and nodes and
// groups among them together are at most kMostInGroup; the top has at most
// kMostOnTop nodes.
constexpr int kLeastGroup = 3;
constexpr int kMostInGroup = 20;
constexpr int kMostOnTop = 30;
// Ours: the graph solver takes a whole layer at once, so a part of so few ops
// is not split further, and neighbours of so few ops together are one part,
// such that fewest bytes cross from part to part.
constexpr int kWhole = 40;

// The last part is the whole graph; children come before their parents.
// O(ops log ops) where it shrinks as graphs do.
std::vector<Part> PartitionGraph(const Graph& graph, const Uses& uses);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PARTITION_H_
