// The branches that every recurrence of chains has: those that run the backward
// of their first stage. Private to the planner.
#ifndef EBBTIDE_PLANNER_STAGE_BRANCHES_H_
#define EBBTIDE_PLANNER_STAGE_BRANCHES_H_

#include <algorithm>

#include "planner/chain_branch.h"
#include "planner/chain_slots.h"

namespace ebbtide {

// Stage i alone; its saved set is there where f > 0, in the way f - 1.
template <class Visit>
void VisitLastStage(const SlotChain& c, int i, int f, Visit& visit) {
  for (size_t w = 0; w < c.ways[i].size(); ++w) {
    const SlotWay& way = c.ways[i][w];
    const int64_t back = c.Backward(i, way);
    if (f == 0) {
      visit({.cost = way.fw + way.bw,
             .gate = std::max(back, c.x[i + 1] + way.keeps + way.ft),
             .walk_to = i,
             .way = static_cast<int>(w),
             .backward = true});
    } else if (f == static_cast<int>(w) + 1) {
      visit({.cost = way.bw, .gate = back, .walk_to = i, .backward = true});
    }
  }
}

// Saves stage i at once, beside `held`, and goes on with `right`.
template <class Visit>
void VisitSaves(const SlotChain& c, int i, int64_t held, const ChainCell& right,
                Visit& visit) {
  for (size_t w = 0; w < c.ways[i].size(); ++w) {
    const SlotWay& way = c.ways[i][w];
    visit({.cost = way.fw + way.bw,
           .gate = std::max(
               {way.keeps, held + way.keeps + way.ft, c.Backward(i, way)}),
           .shift = way.keeps,
           .right = right,
           .walk_to = i,
           .way = static_cast<int>(w),
           .backward = true});
  }
}

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_STAGE_BRANCHES_H_
