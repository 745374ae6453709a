// The persistent dynamic program of Rotor (arXiv 1911.13214, section 4; with
// several ways to save a stage, as in Rockmate): a kept input stays until its
// stage's backward is done. One table answers every budget up to the one it was
// made for.
//
// Sizes are counted in slots. Where the budget has few enough units a slot is
// one unit and the plan is the best of its kind; else sizes are rounded up to
// slots, which costs a little time and never exceeds the budget.
#ifndef EBBTIDE_PLANNER_ROTOR_H_
#define EBBTIDE_PLANNER_ROTOR_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

// Ok if the chain is short enough for a table of at least 500 slots.
absl::Status CheckRotorSize(const Chain& chain);

// Least budget of any persistent plan: exact, without slots. O(L^3).
Bytes RotorLeastBudget(const Chain& chain);
// The plan that needs it, of least time among the choices it meets.
std::vector<ChainAction> RotorLeastPlan(const Chain& chain);

// The table of all budgets up to `most`. O(slots L^3) time, O(slots L^2) room:
// the number of slots is chosen to keep both small.
class RotorTable {
 public:
  RotorTable(const Chain& chain, Bytes most);

  // Time of the best plan within `budget` <= most; nothing where the table has
  // none.
  std::optional<Time> TimeAt(Bytes budget) const;
  // That plan, canonical.
  std::vector<ChainAction> PlanAt(Bytes budget) const;
  // Where the time changes, from the least budget up.
  std::vector<CurvePoint> Curve() const;

 private:
  // A way to run a stage, in slots.
  struct Way {
    Time fw;
    Time bw;
    int keeps;  // saved set
    int runs;   // saved set and workspace of the forward
    int least;  // to run the stage forward and backward with nothing else
  };
  // How the cell [i, l][m] is reached: by saving stage i in way `way`, or by
  // keeping x[i] and going on from x[jump].
  struct Choice {
    int way = -1;
    int jump = -1;
  };

  size_t Row(int i, int l) const;
  int SlotsOf(Bytes bytes) const;
  int Walk(int i, int l) const;
  int FreeSlots(Bytes budget) const;
  void FillStage(int i);
  void FillCell(int i, int l);
  Choice Choose(int i, int l, int m) const;
  void Emit(int i, int l, int m, std::vector<ChainAction>* actions) const;

  int stages_;
  int64_t unit_ = 1;  // sizes of one slot
  int slots_ = 0;     // most, in slots beside x[0]
  int64_t input_ = 0;
  std::vector<int> x_;   // L + 2, the last is 0: what follows the loss
  std::vector<int> ft_;  // L
  std::vector<std::vector<Way>> ways_;  // L + 1; the loss has one
  std::vector<Time> walked_;            // time of stages 0..i-1
  std::vector<Time> table_;             // [i, l][m], m innermost
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ROTOR_H_
