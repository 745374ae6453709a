// A lower bound on the overhead over pairs of instants, and a small branch and
// bound on the best of them: what closes most of the gap that the bound over
// single instants leaves (planner/pair_ascent.h has the argument, and what
// holds with offload; planner-research 2, section 3 has the strength).
//
// Beyond that study: the second instant may be a rerun (planner/instant.h),
// which is what binds where a long rebuilding before one stage fills the
// memory.
//
// Every bound is proven for every plan of the graph, whatever it rebuilds and
// moves, and whenever the search ends. 1e-9 of the sum of its terms is taken
// off for rounding. Private to the planner.
#ifndef EBBTIDE_PLANNER_PAIR_BOUND_H_
#define EBBTIDE_PLANNER_PAIR_BOUND_H_

#include <cstdint>

#include "planner/bound.h"
#include "planner/graph.h"
#include "planner/retention.h"

namespace ebbtide {

struct PairBound {
  Time overhead = 0;  // the bound; never above the overhead of the known plan
  Time pairs = 0;     // what pairs gave without branching
  // The instants that gave it; second -1: one instant, first -1: none.
  int first = -1;
  int second = -1;
  int64_t nodes = 0;  // of the branch and bound
};

// `one` is what BoundOverhead found, `upper` the overhead of a plan, finite.
// `progress` says which share of the time is gone, by a clock or by the number
// of times it was asked: it is asked before each pair of cuts, and for each
// pair of instants and each node.
PairBound BoundOverPairs(const Graph& graph, int64_t budget, bool offload,
                         const OverheadBound& one, Time upper,
                         const Progress& progress);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PAIR_BOUND_H_
