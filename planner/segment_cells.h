// The recurrences of persistent chain plans: a kept x stays until its stage's
// backward is done. Private to the planner.
//
// Cell f = 0 of the pair (i, l): the least time from "x[i] is there, not
// charged, and y[l+1], charged" to "y[i] is ready" (Rotor, arXiv 1911.13214,
// with ways to save a stage as in Rockmate). Unpinned, cell f > 0: the same
// with the saved set of stage l, in its way f - 1, there and charged. So a
// stage may be saved and its input dropped: who makes that input again is the
// recomputation of what lies left of it.
#ifndef EBBTIDE_PLANNER_SEGMENT_CELLS_H_
#define EBBTIDE_PLANNER_SEGMENT_CELLS_H_

#include <algorithm>

#include "planner/chain_branch.h"
#include "planner/chain_slots.h"
#include "planner/stage_branches.h"

namespace ebbtide {

class SegmentCells {
 public:
  SegmentCells(const SlotChain& chain, bool unpinned)
      : c_(chain), unpinned_(unpinned) {}

  int CellsOf(int, int l) const { return 1 + Saved(l); }
  bool Charged(int i) const { return i > 0; }

  template <class Visit>
  void Branches(const ChainCell& cell, Visit&& visit) const {
    const auto [i, l, f] = cell;
    if (i == l) return VisitLastStage(c_, i, f, visit);
    const int64_t held = c_.Held(l, f);
    VisitSaves(c_, i, held, {i + 1, l, f}, visit);
    int64_t walk = 0;  // least slots from x[i] to x[k]
    for (int k = i + 1; k <= l; ++k) {
      const int64_t from = k - 1 > i ? c_.x[k - 1] : 0;
      walk = std::max(walk, from + c_.x[k] + c_.ft[k - 1]);
      const Time walked = c_.walked[k] - c_.walked[i];
      visit({.cost = walked,
             .gate = std::max(c_.x[k], held + walk),
             .shift = c_.x[k],
             .right = {k, l, f},
             .left = {i, k - 1, 0},
             .walk_to = k});
      if (unpinned_ && k < l) SaveAhead(cell, k, walked, held + walk, visit);
    }
  }

 private:
  int Saved(int l) const {
    return unpinned_ && l < c_.stages ? static_cast<int>(c_.ways[l].size()) : 0;
  }

  // Saves stage k and drops x[k].
  template <class Visit>
  void SaveAhead(const ChainCell& cell, int k, Time walked, int64_t gate,
                 Visit& visit) const {
    const auto [i, l, f] = cell;
    for (size_t w = 0; w < c_.ways[k].size(); ++w) {
      const SlotWay& way = c_.ways[k][w];
      visit({.cost = walked + way.fw,
             .gate = std::max({way.keeps, gate,
                               c_.Held(l, f) + c_.x[k] + way.keeps + way.ft}),
             .shift = way.keeps,
             .right = {k + 1, l, f},
             .left = {i, k, static_cast<int>(w) + 1},
             .walk_to = k,
             .way = static_cast<int>(w)});
    }
  }

  const SlotChain& c_;
  const bool unpinned_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEGMENT_CELLS_H_
