// Best-first branch and bound on what is kept at a sequence of instants. Where
// nothing is left to decide at the instants of a node, it goes on with one
// instant more: the one at which what was decided costs most. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_BRANCH_BOUND_H_
#define EBBTIDE_PLANNER_BRANCH_BOUND_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/sequence_ascent.h"

namespace ebbtide {

struct BranchResult {
  Time bound = 0;  // at most `upper`
  int64_t nodes = 0;
  std::vector<int> instants;  // all that were branched on
};

struct BranchOptions {
  int64_t budget = 0;
  Time upper = 0;               // the overhead of some plan
  std::vector<int> candidates;  // instants to go on with
  std::function<bool()> stop;   // asked before each step of an ascent
};

// From `root`, the ascent at `instants` without decisions. Ends where `stop`
// says so; the least bound of all open and all closed nodes is valid at any
// moment.
BranchResult BranchAndBound(const Graph& graph, const HostRooms& host,
                            const std::vector<int>& instants,
                            const SequenceAscent& root,
                            const BranchOptions& options);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BRANCH_BOUND_H_
