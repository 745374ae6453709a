// Anytime branch and bound for placements. Private to the planner.
//
// The ideas are those of Moffitt, MiniMalloc: A Lightweight Memory Allocator
// for Hardware-Accelerated Machine Learning, ASPLOS 2023:
// - Canonical solutions: buffers are placed by rising offset, each as low as
//   what lies below it lets it. Every placement can be pushed down to one.
// - Sections: at an instant, what is not yet placed lies above the lowest
//   offset that any of it can have, so that offset and the sum must fit.
// - Dominance: no buffer is placed where an unplaced buffer would fit below.
// - Preorderings, taken by turns with a growing number of nodes.
// Beside them: what is not yet placed falls apart into groups that do not meet,
// and each group is searched alone; the capacity is what is searched for.
#ifndef EBBTIDE_PLANNER_PLACE_SEARCH_H_
#define EBBTIDE_PLANNER_PLACE_SEARCH_H_

#include <cstdint>

#include "planner/place_problem.h"
#include "planner/units.h"

namespace ebbtide {

struct SearchResult {
  Placement placement;  // the first one where none lower was found
  Bytes least{};        // proven: no placement is lower
  int64_t nodes = 0;
};

// Looks below `first`, a valid placement, for the lowest one: at most down to
// `enough`, and never below `least`, a lower bound. Heights are distinguished
// to a 1024th, so the answer is exact up to 1024 units of size (the greatest
// common divisor of sizes, alignments and fixed offsets) where the nodes
// suffice.
SearchResult SearchPlacement(const PlaceProblem& problem,
                             const Placement& first, Bytes least, Bytes enough,
                             int64_t nodes);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_SEARCH_H_
