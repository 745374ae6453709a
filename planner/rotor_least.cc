// The least budget of a persistent plan, by the recurrence of rotor.cc with
// sizes in place of times: no slots are needed.
#include <algorithm>
#include <limits>

#include "planner/rotor.h"
#include "planner/rotor_actions.h"

namespace ebbtide {
namespace {

struct Cell {
  int64_t size = std::numeric_limits<int64_t>::max();
  Time time = 0;
  int way = -1;   // saves stage i in this way, or
  int jump = -1;  // keeps x[i] and goes on from x[jump]

  bool Better(const Cell& other) const {
    return std::pair(size, time) < std::pair(other.size, other.time);
  }
};

class LeastTable {
 public:
  explicit LeastTable(const Chain& chain) : c_(chain), stages_(Stages(chain)) {
    cells_.resize(static_cast<size_t>(stages_ + 1) * (stages_ + 1));
    for (int i = 0; i < stages_; ++i) ways_.push_back(SavingWays(chain, i));
    for (int i = 0; i <= stages_; ++i) FillStage(i);
    for (int d = 1; d <= stages_; ++d) {
      for (int i = 0; i + d <= stages_; ++i) FillCell(i, i + d);
    }
  }

  Cell& At(int i, int l) {
    return cells_[static_cast<size_t>(i) * (stages_ + 1) + l];
  }

  void Emit(int i, int l, ChainActions* actions) {
    if (i == stages_) {
      actions->push_back({ChainAction::Do::kLoss});
      return;
    }
    const Cell cell = At(i, l);
    if (cell.way >= 0) {
      EmitForward(i, cell.way + 1, actions);
      if (i < l) Emit(i + 1, l, actions);
      EmitBackward(i, actions);
      return;
    }
    EmitWalk(i, cell.jump, actions);
    Emit(cell.jump, l, actions);
    EmitFree(ChainAction::Item::kX, cell.jump, actions);
    Emit(i, cell.jump - 1, actions);
  }

 private:
  int64_t X(int i) const { return i <= stages_ ? Count(c_.x[i]) : 0; }

  // To run stage i forward and backward with nothing else alive.
  int64_t Alone(int i, const ChainOption& way) const {
    const int64_t saved = X(i + 1) + Count(way.xb);
    return saved + std::max(Count(way.ft), X(i) + Count(way.bt));
  }

  void FillStage(int i) {
    if (i == stages_) {
      At(i, i) = {X(i) + Count(c_.bt[i]), c_.bw[i], 0, -1};
      return;
    }
    for (size_t w = 0; w < ways_[i].size(); ++w) {
      const ChainOption& way = ways_[i][w];
      const Cell cell{Alone(i, way), way.fw + way.bw, static_cast<int>(w)};
      if (cell.Better(At(i, i))) At(i, i) = cell;
    }
  }

  void FillCell(int i, int l) {
    int64_t walk = X(i + 1) + Count(c_.ft[i]);
    for (int j = i + 1; j < l; ++j) {
      walk = std::max(walk, X(j) + X(j + 1) + Count(c_.ft[j]));
    }
    walk += X(l + 1);
    Cell best;
    for (size_t w = 0; w < ways_[i].size(); ++w) {
      const ChainOption& way = ways_[i][w];
      const Cell& rest = At(i + 1, l);
      Cell cell{std::max({walk, Alone(i, way),
                          X(l + 1) + Count(way.xb) + Count(way.ft),
                          Count(way.xb) + rest.size}),
                way.fw + way.bw + rest.time, static_cast<int>(w)};
      if (cell.Better(best)) best = cell;
    }
    Time walked = 0;
    for (int j = i + 1; j <= l; ++j) {
      walked += c_.fw[j - 1];
      const Cell& right = At(j, l);
      const Cell& left = At(i, j - 1);
      const Cell cell{std::max({walk, X(j) + right.size, left.size}),
                      walked + right.time + left.time, -1, j};
      if (cell.Better(best)) best = cell;
    }
    At(i, l) = best;
  }

  const Chain& c_;
  const int stages_;
  std::vector<std::vector<ChainOption>> ways_;
  std::vector<Cell> cells_;
};

}  // namespace

Bytes RotorLeastBudget(const Chain& chain) {
  return chain.x[0] + Bytes{LeastTable(chain).At(0, Stages(chain)).size};
}

ChainActions RotorLeastPlan(const Chain& chain) {
  ChainActions actions;
  LeastTable(chain).Emit(0, Stages(chain), &actions);
  SortFrees(&actions);
  return actions;
}

}  // namespace ebbtide
