// The least budget of a plan of each kind, by the solvers' recurrences with
// sizes in place of times: no slots are needed.
#include <algorithm>
#include <limits>

#include "planner/chain_table.h"
#include "planner/chain_walk.h"
#include "planner/floating_cells.h"
#include "planner/segment_cells.h"

namespace ebbtide {
namespace {

struct Least {
  int64_t size = std::numeric_limits<int64_t>::max();
  Time time = 0;  // time of the plan that its choices make

  friend bool operator==(const Least&, const Least&) = default;
  bool Better(const Least& other) const {
    return std::pair(size, time) < std::pair(other.size, other.time);
  }
};

template <class Cells>
class LeastTable {
 public:
  LeastTable(const Chain& chain, bool unpinned)
      : c_(CountBytes(chain)), cells_(c_, unpinned), pairs_(c_.stages + 1) {
    table_.resize(static_cast<size_t>(pairs_) * pairs_);
    for (int d = 0; d < pairs_; ++d) {
      for (int i = 0; i + d < pairs_; ++i) {
        auto& pair = table_[Pair(i, i + d)];
        pair.resize(cells_.CellsOf(i, i + d));
        for (int k = 0; k < static_cast<int>(pair.size()); ++k) {
          cells_.Branches({i, i + d, k}, [&](const ChainBranch& branch) {
            const Least least = Of(branch);
            if (least.Better(pair[k])) pair[k] = least;
          });
        }
      }
    }
  }

  int64_t Size() const { return table_[Pair(0, c_.stages)][0].size; }

  ChainActions Plan() const {
    ChainActions actions;
    const auto choose = [this](const ChainCell& cell, int64_t) {
      const Least best = table_[Pair(cell.i, cell.l)][cell.index];
      ChainBranch chosen;
      bool found = false;
      cells_.Branches(cell, [&](const ChainBranch& branch) {
        if (found || Of(branch) != best) return;
        found = true;
        chosen = branch;
      });
      return chosen;
    };
    WalkBranches(c_.stages, {0, c_.stages, 0}, 0, choose, &actions);
    return AddFrees(c_.stages, actions);
  }

 private:
  size_t Pair(int i, int l) const {
    return static_cast<size_t>(i) * pairs_ + l;
  }

  Least Of(const ChainBranch& branch) const {
    Least sum{branch.gate, branch.cost};
    for (const auto& [cell, shift] : {std::pair{branch.right, branch.shift},
                                      std::pair{branch.left, int64_t{0}}}) {
      if (cell.i < 0) continue;
      const Least& part = table_[Pair(cell.i, cell.l)][cell.index];
      if (part.size == std::numeric_limits<int64_t>::max()) return {};
      sum.size = std::max(sum.size, part.size + shift);
      sum.time += part.time;
    }
    return sum;
  }

  const SlotChain c_;
  const Cells cells_;
  const int pairs_;
  std::vector<std::vector<Least>> table_;
};

}  // namespace

Bytes LeastChainBudget(const Chain& chain, ChainSolver solver) {
  return chain.x[0] +
         Bytes{solver.floating
                   ? LeastTable<FloatingCells>(chain, solver.unpinned).Size()
                   : LeastTable<SegmentCells>(chain, solver.unpinned).Size()};
}

ChainActions LeastChainPlan(const Chain& chain, ChainSolver solver) {
  return solver.floating
             ? LeastTable<FloatingCells>(chain, solver.unpinned).Plan()
             : LeastTable<SegmentCells>(chain, solver.unpinned).Plan();
}

}  // namespace ebbtide
