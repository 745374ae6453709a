// The recurrences of floating chain plans: a kept x may move up the chain or go
// before its stage's backward is done (weak persistence: Beaumont et al.,
// "Optimal memory-aware backpropagation of deep join networks"). Private to the
// planner.
//
// With x[s] there, not charged, and y[l+1], charged (and, unpinned, the saved
// set of stage l in its way f - 1), a pair (s, l) has the cells
//   run(t, f): the least time to y[t]; x[s] may go unless t = s;
//   leave(k, w, f), unpinned, k < l: the least time to y[k+1] and the saved set
//     of stage k in way w; x[s] goes.
// Walks go one stage at a time: x[s+1] in place of x[s] (a move), or beside it
// until the backward of some stage is done (a hold), so every branch costs O(1)
// and a cell O(L). A move up to stage l alone is one of them: the case that
// published code has no transition for.
#ifndef EBBTIDE_PLANNER_FLOATING_CELLS_H_
#define EBBTIDE_PLANNER_FLOATING_CELLS_H_

#include <algorithm>
#include <vector>

#include "planner/chain_branch.h"
#include "planner/chain_slots.h"
#include "planner/stage_branches.h"

namespace ebbtide {

class FloatingCells {
 public:
  FloatingCells(const SlotChain& chain, bool unpinned)
      : c_(chain), unpinned_(unpinned), ways_before_(1, 0) {
    for (const auto& ways : chain.ways) {
      ways_before_.push_back(ways_before_.back() +
                             static_cast<int>(ways.size()));
    }
  }

  int CellsOf(int s, int l) const {
    const int leaving =
        unpinned_ && s > 0 ? ways_before_[l] - ways_before_[s] : 0;
    return (Runs(s, l) + leaving) * Forms(l);
  }
  // x[0] stays: nothing else is kept without a base.
  bool Charged(int s) const { return s > 0; }

  template <class Visit>
  void Branches(const ChainCell& cell, Visit&& visit) const {
    const auto [s, l, index] = cell;
    const int f = index % Forms(l);
    const int place = index / Forms(l);
    if (place < Runs(s, l)) {
      Run(s, s + place, l, f, visit);
      return;
    }
    const int way = place - Runs(s, l) + ways_before_[s];
    const auto after =
        std::upper_bound(ways_before_.begin(), ways_before_.end(), way);
    const int k = static_cast<int>(after - ways_before_.begin()) - 1;
    Leave(s, k, way - ways_before_[k], l, f, visit);
  }

 private:
  // With and without a saved set of stage l.
  int Forms(int l) const {
    const bool saved = unpinned_ && l < c_.stages;
    return saved ? static_cast<int>(c_.ways[l].size()) + 1 : 1;
  }
  static int Runs(int s, int l) { return s == 0 ? 1 : l - s + 1; }

  ChainCell RunCell(int s, int t, int l, int f) const {
    return {s, l, (t - s) * Forms(l) + f};
  }
  ChainCell LeaveCell(int s, int k, int w, int l, int f) const {
    const int place = Runs(s, l) + ways_before_[k] - ways_before_[s] + w;
    return {s, l, place * Forms(l) + f};
  }

  // Least slots for the forward of stage s beside what is held.
  int64_t StepGate(int s, int l, int f) const {
    return c_.Held(l, f) + c_.x[s + 1] + c_.ft[s];
  }
  Time StepTime(int s) const { return c_.walked[s + 1] - c_.walked[s]; }

  template <class Visit>
  void Run(int s, int t, int l, int f, Visit& visit) const {
    if (s == l) return VisitLastStage(c_, s, f, visit);
    if (s == t) {
      VisitSaves(c_, s, c_.Held(l, f), RunCell(s + 1, s + 1, l, f), visit);
    } else {
      Move(s, l, f, RunCell(s + 1, t, l, f), visit);
    }
    const int64_t gate = StepGate(s, l, f);
    for (int u = t + 1; u <= l; ++u) {
      visit({.cost = StepTime(s),
             .gate = std::max(c_.x[s + 1], gate),
             .shift = c_.x[s + 1],
             .right = RunCell(s + 1, u, l, f),
             .left = RunCell(s, t, u - 1, 0),
             .walk_to = s + 1});
    }
    for (int k = std::max(t, s + 1); unpinned_ && k < l; ++k) {
      for (int w = 0; w < static_cast<int>(c_.ways[k].size()); ++w) {
        HoldToLeave(s, k, w, l, f, RunCell(s, t, k, w + 1), visit);
      }
    }
  }

  // x[s+1] instead of x[s].
  template <class Visit>
  void Move(int s, int l, int f, const ChainCell& right, Visit& visit) const {
    const int64_t shift = c_.x[s + 1] - c_.x[s];
    visit({.cost = StepTime(s),
           .gate = std::max(shift, StepGate(s, l, f)),
           .shift = shift,
           .right = right,
           .walk_to = s + 1});
  }

  // x[s+1] beside x[s], until only the saved set of stage k is left of it.
  template <class Visit>
  void HoldToLeave(int s, int k, int w, int l, int f, const ChainCell& left,
                   Visit& visit) const {
    visit({.cost = StepTime(s),
           .gate = std::max(c_.x[s + 1], StepGate(s, l, f)),
           .shift = c_.x[s + 1],
           .right = LeaveCell(s + 1, k, w, l, f),
           .left = left,
           .walk_to = s + 1});
  }

  template <class Visit>
  void Leave(int s, int k, int w, int l, int f, Visit& visit) const {
    if (s == k) {
      const SlotWay& way = c_.ways[k][w];
      const int64_t shift = way.keeps - c_.x[k];
      visit({.cost = way.fw,
             .gate = std::max(shift, c_.Held(l, f) + way.keeps + way.ft),
             .shift = shift,
             .right = RunCell(k + 1, k + 1, l, f),
             .walk_to = k,
             .way = w});
    } else {
      Move(s, l, f, LeaveCell(s + 1, k, w, l, f), visit);
    }
    const int64_t gate = StepGate(s, l, f);
    for (int u = k + 2; u <= l; ++u) {
      visit({.cost = StepTime(s),
             .gate = std::max(c_.x[s + 1], gate),
             .shift = c_.x[s + 1],
             .right = RunCell(s + 1, u, l, f),
             .left = LeaveCell(s, k, w, u - 1, 0),
             .walk_to = s + 1});
    }
    for (int j = k + 1; j < l; ++j) {
      for (int v = 0; v < static_cast<int>(c_.ways[j].size()); ++v) {
        HoldToLeave(s, j, v, l, f, LeaveCell(s, k, w, j, v + 1), visit);
      }
    }
  }

  const SlotChain& c_;
  const bool unpinned_;
  std::vector<int> ways_before_;  // ways of stages 0..i-1
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_FLOATING_CELLS_H_
