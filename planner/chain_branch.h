// The chain solvers' recurrences as data: how the cells of a table are made of
// cells of shorter segments. One driver fills tables of times (chain_rows.h),
// one finds least budgets (chain_least.cc), and both read plans from them, for
// any recurrence that has the members of SegmentCells and FloatingCells:
//   pairs (i, l), 0 <= i <= l <= L, each with CellsOf(i, l) cells;
//   Branches(cell, visit), which calls visit(branch) for every way to make it;
//   Charged(i): whether x[i] is part of the budget of whoever asks for i.
// A branch reads only pairs within its own that are shorter.
#ifndef EBBTIDE_PLANNER_CHAIN_BRANCH_H_
#define EBBTIDE_PLANNER_CHAIN_BRANCH_H_

#include <cstdint>

#include "planner/units.h"

namespace ebbtide {

struct ChainCell {
  int i = -1;  // none where negative
  int l = -1;
  int index = 0;
};

// With m slots, m >= gate, a cell takes `cost`, the time of `right` with
// m - shift and that of `left` with m. The actions: forwards of the stages
// from i to walk_to - 1 that keep their last output only, the forward of stage
// walk_to saved in `way`, those of `right`, the backward of stage i, those of
// `left`.
struct ChainBranch {
  Time cost = 0;
  int64_t gate = 0;
  int64_t shift = 0;
  ChainCell right;
  ChainCell left;
  int walk_to = 0;
  int way = -1;  // none where negative
  bool backward = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_BRANCH_H_
