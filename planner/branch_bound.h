// Best-first branch and bound on what is kept at a pair of instants
// (planner-research 2, section 3). Private to the planner.
#ifndef EBBTIDE_PLANNER_BRANCH_BOUND_H_
#define EBBTIDE_PLANNER_BRANCH_BOUND_H_

#include <cstdint>
#include <functional>

#include "planner/pair_ascent.h"

namespace ebbtide {

struct BranchResult {
  Time bound = 0;  // at most `upper`
  int64_t nodes = 0;
};

// From `root`, the ascent of the problem without decisions. Ends where `stop`,
// asked before each pair of cuts, says so; the least bound of all open and all
// closed nodes is valid at any moment.
BranchResult BranchAndBound(PairProblem& problem, PairAscent root, Time upper,
                            const std::function<bool()>& stop);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BRANCH_BOUND_H_
