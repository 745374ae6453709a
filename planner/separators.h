// Separators of a graph, which cut it into a chain of blocks: borders that one
// value crosses, or nearly so (the 1-separators of Rockmate: Zhao et al., ICML
// 2023, section 3). Private to the planner.
#ifndef EBBTIDE_PLANNER_SEPARATORS_H_
#define EBBTIDE_PLANNER_SEPARATORS_H_

#include <vector>

#include "planner/graph.h"
#include "planner/uses.h"

namespace ebbtide {

// Between op - 1 and op.
struct Border {
  int op = 0;
  // Values made before it and used behind it, by ops or by the stages of ops:
  // values that plans may keep or not. Ascending.
  std::vector<int> values;
};

// Share of one value in the bytes that cross a separator; the rest is masks and
// the like that many layers read.
constexpr double kMainShare = 0.95;
// If there are more separators, those stay that fewest bytes cross.
constexpr int kMostBlocks = 128;

// Both ends of the graph, where nothing crosses, and the separators in between,
// each crossed by something else than the one before.
std::vector<Border> Separators(const Graph& graph, const Uses& uses);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEPARATORS_H_
