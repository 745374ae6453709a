// Where a graph can be cut into a chain of blocks: borders that one value
// crosses, or nearly so (the 1-separators of Rockmate: Zhao et al., ICML 2023,
// section 3). Private to the planner.
#ifndef EBBTIDE_PLANNER_SEPARATORS_H_
#define EBBTIDE_PLANNER_SEPARATORS_H_

#include <vector>

#include "planner/graph.h"
#include "planner/uses.h"

namespace ebbtide {

// Between op - 1 and op.
struct Border {
  int op = 0;
  // What is made before it and used behind it, by ops or by the stages of ops:
  // values that plans may keep or not. Ascending.
  std::vector<int> values;
};

// Of what crosses a separator one value has this share of the bytes; the rest
// is masks and the like that many layers read.
constexpr double kMainShare = 0.95;
// Of more separators those stay that fewest bytes cross.
constexpr int kMostBlocks = 128;

// Both ends of the graph, where nothing crosses, and the separators in between,
// each crossed by something else than the one before.
std::vector<Border> Separators(const Graph& graph, const Uses& uses);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEPARATORS_H_
