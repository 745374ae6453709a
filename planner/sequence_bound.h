// A lower bound on the overhead over sequences of instants, and a branch and
// bound on the best of them: what closes most of the gap that the bound over
// single instants leaves (planner/sequence_ascent.h has the argument, and what
// holds with offload).
//
// Sequences are pairs of stages, and beyond them: the second instant may be a
// rerun (planner/instant.h), which binds where a long recomputation before one
// stage fills the memory; the best instant and the best pairs are lengthened by
// the instants that give most; and so are the decisions of the branch and bound
// (planner/branch_bound.h).
//
// Every bound is proven for every plan of the graph, whatever it recomputes and
// offloads, and whenever the search ends. 1e-9 of the sum of its terms is taken
// off for rounding. Private to the planner.
#ifndef EBBTIDE_PLANNER_SEQUENCE_BOUND_H_
#define EBBTIDE_PLANNER_SEQUENCE_BOUND_H_

#include <cstdint>
#include <vector>

#include "planner/bound.h"
#include "planner/graph.h"
#include "planner/retention.h"

namespace ebbtide {

struct SequenceBound {
  Time overhead = 0;    // the bound; never above the overhead of the known plan
  Time unbranched = 0;  // bound by sequences without branching
  std::vector<int> instants;  // that gave it; empty where nothing binds
  int64_t nodes = 0;          // nodes of the branch and bound
};

// `one` is what BoundOverhead found, `upper` the overhead of a plan, finite.
// `progress` says which share of the time is gone, by a clock or by the number
// of times it was asked: it is asked before each step of an ascent, and for
// each sequence and each node.
SequenceBound BoundOverSequences(const Graph& graph, int64_t budget,
                                 bool offload, const OverheadBound& one,
                                 Time upper, const Progress& progress);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEQUENCE_BOUND_H_
