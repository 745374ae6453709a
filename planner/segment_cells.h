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
    if (i == l) return Base(i, f, visit);
    const int64_t held = Held(l, f);
    for (size_t w = 0; w < c_.ways[i].size(); ++w) {
      const SlotWay& way = c_.ways[i][w];
      visit({.cost = way.fw + way.bw,
             .gate = std::max(
                 {way.keeps, held + way.keeps + way.ft, c_.Backward(i, way)}),
             .shift = way.keeps,
             .right = {i + 1, l, f},
             .walk_to = i,
             .way = static_cast<int>(w),
             .backward = true});
    }
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

  // What is charged from the start: y[l+1] and the saved set of stage l.
  int64_t Held(int l, int f) const {
    return c_.x[l + 1] + (f > 0 ? c_.ways[l][f - 1].keeps : 0);
  }

  template <class Visit>
  void Base(int i, int f, Visit& visit) const {
    for (size_t w = 0; w < c_.ways[i].size(); ++w) {
      const SlotWay& way = c_.ways[i][w];
      const int64_t back = c_.Backward(i, way);
      if (f == 0) {
        visit({.cost = way.fw + way.bw,
               .gate = std::max(back, c_.x[i + 1] + way.keeps + way.ft),
               .walk_to = i,
               .way = static_cast<int>(w),
               .backward = true});
      } else if (f == static_cast<int>(w) + 1) {
        visit({.cost = way.bw, .gate = back, .walk_to = i, .backward = true});
      }
    }
  }

  // Saves stage k and drops x[k].
  template <class Visit>
  void SaveAhead(const ChainCell& cell, int k, Time walked, int64_t gate,
                 Visit& visit) const {
    const auto [i, l, f] = cell;
    for (size_t w = 0; w < c_.ways[k].size(); ++w) {
      const SlotWay& way = c_.ways[k][w];
      visit({.cost = walked + way.fw,
             .gate = std::max(
                 {way.keeps, gate, Held(l, f) + c_.x[k] + way.keeps + way.ft}),
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
