// The dynamic programs over chains. One table answers every budget up to the
// one it was made for, and has no back-pointers: plans are read by making each
// decision again.
//
//   rotor              persistent: a kept x stays until its backward
//   floating           a kept x may move, or go early
//   unpinned           a saved stage's input may be dropped and recomputed
//   unpinned-floating  both
//
// Each takes any number of ways to save a stage. Time and memory, with K ways:
// S L^3 (K+1)^2 / 6 and S L^2 (K+1) / 2 for those that do not float (K = 0
// where they are pinned), about S L^4 / 24 and S L^3 / 6 for floating, eight
// times that and four times that for unpinned-floating with one way.
#ifndef EBBTIDE_PLANNER_CHAIN_TABLE_H_
#define EBBTIDE_PLANNER_CHAIN_TABLE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/chain_slots.h"
#include "planner/units.h"

namespace ebbtide {

struct ChainSolver {
  bool unpinned = false;
  bool floating = false;
};

// Nothing where the name is none of the four.
std::optional<ChainSolver> ParseChainSolver(absl::string_view name);

// How much there is to do for a chain, per slot.
struct TableWork {
  double rows = 0;   // one element each
  double terms = 0;  // terms of min-plus
};
TableWork WorkOf(const Chain& chain, ChainSolver solver);

// A table has at least so many.
constexpr int64_t kFewestSlots = 500;
// As many as take about a second, and about ten.
int64_t UsualSlots(const TableWork& work);
int64_t FineSlots(const TableWork& work);

// Ok if a table of the fewest slots is not too large.
absl::Status CheckTableSize(const Chain& chain, ChainSolver solver);

// Least budget of any plan of the solver's kind: exact, without slots.
Bytes LeastChainBudget(const Chain& chain, ChainSolver solver);
// A plan that needs it.
std::vector<ChainAction> LeastChainPlan(const Chain& chain, ChainSolver solver);

class ChainTable {
 public:
  virtual ~ChainTable() = default;

  // Time of the best plan within `budget`; nothing where the table has none.
  virtual std::optional<Time> TimeAt(Bytes budget) const = 0;
  // That plan, canonical. Sizes must have been rounded up.
  virtual std::vector<ChainAction> PlanAt(Bytes budget) const = 0;
  // Where the time changes, from the least budget up.
  virtual std::vector<CurvePoint> Curve() const = 0;
  virtual size_t MemoryUsed() const = 0;
};

// `threads` share the work; the result does not depend on them.
std::unique_ptr<ChainTable> MakeChainTable(SlotChain chain, ChainSolver solver,
                                           int threads = 1);

// For all budgets that matter, in the usual number of slots.
SlotChain UsualSlotChain(const Chain& chain, ChainSolver solver,
                         Rounding rounding = Rounding::kUp);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_TABLE_H_
