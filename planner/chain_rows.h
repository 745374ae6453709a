// The table of a recurrence (planner/chain_branch.h): a row of times over slots
// for each cell. Private to the planner.
#ifndef EBBTIDE_PLANNER_CHAIN_ROWS_H_
#define EBBTIDE_PLANNER_CHAIN_ROWS_H_

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/chain_table.h"
#include "planner/chain_walk.h"
#include "planner/check.h"
#include "planner/min_plus.h"
#include "planner/row_store.h"

namespace ebbtide {

template <class T, class Cells>
class ChainRows : public ChainTable {
 public:
  ChainRows(SlotChain chain, bool unpinned, int threads)
      : c_(std::move(chain)), cells_(c_, unpinned), pairs_(c_.stages + 1) {
    first_.resize(static_cast<size_t>(pairs_) * pairs_);
    size_t cells = 0;
    for (int i = 0; i < pairs_; ++i) {
      for (int l = i; l < pairs_; ++l) {
        first_[Pair(i, l)] = cells;
        cells += cells_.CellsOf(i, l);
      }
    }
    rows_.resize(cells);
    Fill(threads);
  }

  std::optional<Time> TimeAt(Bytes budget) const override {
    const int64_t m = c_.SlotsOf(budget);
    const TimeRow<T>& row = Whole();
    if (m < row.low || row.low > row.high) return std::nullopt;
    return row.At(static_cast<int>(m)) * c_.quantum;
  }

  std::vector<ChainAction> PlanAt(Bytes budget) const override {
    if (!TimeAt(budget).has_value()) return {};
    ChainActions actions;
    Emit({0, c_.stages, 0}, c_.SlotsOf(budget), &actions);
    return AddFrees(c_.stages, actions);
  }

  // Least time of the cell with `m` slots, in quanta; infinity where there is
  // no plan.
  Time TimeOf(const ChainCell& cell, int64_t m) const {
    const TimeRow<T>& row = Row(cell);
    if (m < row.low || row.low > row.high) {
      return std::numeric_limits<Time>::infinity();
    }
    return static_cast<Time>(row.At(static_cast<int>(m)));
  }

  // The plan that takes that time, without frees.
  void Emit(const ChainCell& cell, int64_t m, ChainActions* actions) const {
    const auto choose = [this](const ChainCell& at, int64_t slots) {
      return Choose(at, static_cast<int>(slots));
    };
    WalkBranches(c_.stages, cell, m, choose, actions);
  }

  std::vector<CurvePoint> Curve() const override {
    std::vector<CurvePoint> curve;
    const TimeRow<T>& row = Whole();
    for (int m = row.low; m <= row.high; ++m) {
      const Time time = row.At(m) * c_.quantum;
      if (!curve.empty() && curve.back().time <= time) continue;
      curve.push_back({Bytes{c_.input + m * c_.unit}, time});
    }
    return curve;
  }

  size_t MemoryUsed() const override {
    size_t sum =
        rows_.size() * sizeof(rows_[0]) + first_.size() * sizeof(first_[0]);
    for (const auto& worker : workers_) sum += worker.store.MemoryUsed();
    return sum;
  }

 private:
  static constexpr T kNever = std::is_integral_v<T>
                                  ? std::numeric_limits<T>::max()
                                  : std::numeric_limits<T>::infinity();
  // Pairs of a block have their rows in common; 16 of them, 500 slots of four
  // bytes and 340 stages keep what a block reads at 11 MB.
  static constexpr int kBlock = 16;

  // Terms of a cell that are applied before it is the next cell's turn: what
  // they read on the left, cells of one line have in common.
  static constexpr size_t kTogether = 128;

  // A cell whose row is being made: the least time by the terms so far, of
  // slots from `first` on; from `last` on they do not change.
  struct Making {
    std::vector<MinPlusTerm<T>> terms;
    std::vector<T> out;
    int first = 0;
    int last = -1;
  };

  struct Worker {
    RowStore<T> store;
    std::vector<Making> line;
    std::exception_ptr error;
  };

  size_t Pair(int i, int l) const {
    return static_cast<size_t>(i) * pairs_ + l;
  }
  const TimeRow<T>& Row(const ChainCell& cell) const {
    static constexpr T kZeros[1 + kRowStep] = {};
    static constexpr TimeRow<T> kNone{kZeros, 0, 0};
    if (cell.i < 0) return kNone;
    return rows_[first_[Pair(cell.i, cell.l)] + cell.index];
  }
  const TimeRow<T>& Whole() const { return Row({0, c_.stages, 0}); }

  // A block needs its neighbours of the diagonal before, which need all others
  // that it reads. Blocks are taken diagonal by diagonal, so that what one
  // waits for has been taken.
  void Fill(int threads) {
    const int blocks = (pairs_ + kBlock - 1) / kBlock;
    std::vector<std::pair<int, int>> order;
    for (int d = 0; d < blocks; ++d) {
      for (int b = 0; b + d < blocks; ++b) order.emplace_back(b, b + d);
    }
    std::vector<std::atomic<bool>> is_filled(static_cast<size_t>(blocks) *
                                             blocks);
    const auto filled = [&](int b, int e) -> std::atomic<bool>& {
      return is_filled[static_cast<size_t>(b) * blocks + e];
    };
    std::atomic<size_t> taken = 0;
    const auto work = [&](Worker* worker) {
      for (size_t k = taken++; k < order.size(); k = taken++) {
        const auto [b, e] = order[k];
        if (b < e) filled(b, e - 1).wait(false);
        if (b < e) filled(b + 1, e).wait(false);
        GuardedFillBlock(b, e, worker);
        filled(b, e) = true;
        filled(b, e).notify_all();
      }
    };
    workers_.resize(std::clamp(threads, 1, blocks));
    std::vector<std::thread> others;
    for (size_t t = 1; t < workers_.size(); ++t) {
      others.emplace_back(work, &workers_[t]);
    }
    work(&workers_[0]);
    for (std::thread& other : others) other.join();
    for (const Worker& worker : workers_) {
      if (worker.error) std::rethrow_exception(worker.error);
    }
  }

  // The block of a worker that failed counts as filled, or the others would
  // wait.
  void GuardedFillBlock(int rows, int columns, Worker* worker) {
    if (worker->error) return;
    try {
      FillBlock(rows, columns, worker);
    } catch (...) {
      worker->error = std::current_exception();
    }
  }

  // First the terms of rows that are there, for all cells of a line together,
  // then for one cell after the other those of rows that the line itself makes.
  void FillBlock(int rows, int columns, Worker* worker) {
    const int i_end = std::min((rows + 1) * kBlock, pairs_);
    for (int i = i_end - 1; i >= rows * kBlock; --i) {
      const int l_begin = std::max(i, columns * kBlock);
      const int l_end = std::min((columns + 1) * kBlock, pairs_);
      const auto is_there = [=](const ChainCell& cell) {
        return cell.i != i || cell.l < l_begin;
      };
      size_t cells = 0;
      for (int l = l_begin; l < l_end; ++l) cells += cells_.CellsOf(i, l);
      if (worker->line.size() < cells) worker->line.resize(cells);
      const auto line = absl::MakeSpan(worker->line).first(cells);
      ForEachCell(i, l_begin, l_end, line,
                  [&](const ChainCell& cell, Making* making) {
                    Begin(cell, is_there, making);
                  });
      ApplyTogether(line);
      ForEachCell(i, l_begin, l_end, line,
                  [&](const ChainCell& cell, Making* making) {
                    Finish(cell, is_there, making, &worker->store);
                  });
    }
  }

  template <class Function>
  void ForEachCell(int i, int l_begin, int l_end, absl::Span<Making> line,
                   const Function& function) {
    Making* next = line.data();
    for (int l = l_begin; l < l_end; ++l) {
      const int cells = cells_.CellsOf(i, l);
      for (int index = 0; index < cells; ++index) {
        function(ChainCell{i, l, index}, next++);
      }
    }
  }

  // x[i] is part of what a cell that is asked for leaves.
  int MostSlots(int i) const {
    return static_cast<int>(c_.slots - (cells_.Charged(i) ? c_.x[i] : 0));
  }

  // Those of the cell's terms whose branch is wanted.
  template <class IsWanted>
  void Collect(const ChainCell& cell, const IsWanted& is_wanted,
               Making* making) {
    making->terms.clear();
    const int most = MostSlots(cell.i);
    cells_.Branches(cell, [&](const ChainBranch& branch) {
      if (!is_wanted(branch)) return;
      const TimeRow<T>& left = Row(branch.left);
      const TimeRow<T>& right = Row(branch.right);
      if (left.low > left.high || right.low > right.high) return;
      const int64_t from =
          std::max({branch.gate, int64_t{left.low}, right.low + branch.shift});
      if (from > most) return;
      const int64_t flat =
          std::max({from, int64_t{left.high}, right.high + branch.shift});
      making->first = std::min(making->first, static_cast<int>(from));
      making->last = std::max(making->last,
                              static_cast<int>(std::min<int64_t>(flat, most)));
      making->terms.push_back({static_cast<T>(branch.cost),
                               static_cast<int>(from),
                               static_cast<int>(branch.shift), left, right});
    });
  }

  template <class IsThere>
  void Begin(const ChainCell& cell, const IsThere& is_there, Making* making) {
    making->first = MostSlots(cell.i) + 1;
    making->last = -1;
    Collect(
        cell,
        [&](const ChainBranch& branch) {
          return is_there(branch.left) && is_there(branch.right);
        },
        making);
    if (making->last >= 0) Extend(making->first, -1, making);
  }

  // Makes room up to `last`, of which (`known_last`, last] go on as the row
  // ends, and [first, known_first) have no plan yet.
  static void Extend(int known_first, int known_last, Making* making) {
    std::vector<T>& out = making->out;
    const size_t end = making->last + 1 + kRowStep;
    if (out.size() < end) out.resize(end);
    if (known_last < 0) {
      std::fill(out.begin() + making->first, out.begin() + end, kNever);
      return;
    }
    std::fill(out.begin() + making->first, out.begin() + known_first, kNever);
    std::fill(out.begin() + known_last + 1, out.begin() + end, out[known_last]);
  }

  void ApplyTogether(absl::Span<Making> line) {
    size_t most = 0;
    for (const Making& making : line) {
      most = std::max(most, making.terms.size());
    }
    for (size_t begin = 0; begin < most; begin += kTogether) {
      for (Making& making : line) {
        if (begin >= making.terms.size()) continue;
        MinPlus<T>(absl::MakeConstSpan(making.terms).subspan(begin, kTogether),
                   making.last, making.out.data());
      }
    }
  }

  template <class IsThere>
  void Finish(const ChainCell& cell, const IsThere& is_there, Making* making,
              RowStore<T>* store) {
    const int known_first = making->first;
    const int known_last = making->last;
    Collect(
        cell,
        [&](const ChainBranch& branch) {
          return !is_there(branch.left) || !is_there(branch.right);
        },
        making);
    int last = making->last;
    if (last < 0) return;
    Extend(known_first, known_last, making);
    const int first = making->first;
    const std::vector<T>& out = making->out;
    MinPlus<T>(making->terms, last, making->out.data());
    while (last > first && out[last - 1] == out[last]) --last;
    const int band = last - first + 1;
    T* stored = store->Take(band + kRowStep);
    std::copy(out.begin() + first, out.begin() + last + 1, stored);
    std::fill(stored + band, stored + band + kRowStep, out[last]);
    rows_[first_[Pair(cell.i, cell.l)] + cell.index] = {stored, first, last};
  }

  // The first branch that gives the cell's time, by the sums of MinPlus.
  ChainBranch Choose(const ChainCell& cell, int m) const {
    ChainBranch chosen;
    bool found = false;
    const T best = Row(cell).At(m);
    cells_.Branches(cell, [&](const ChainBranch& branch) {
      if (found || m < branch.gate) return;
      const TimeRow<T>& left = Row(branch.left);
      const TimeRow<T>& right = Row(branch.right);
      if (left.low > left.high || m < left.low) return;
      if (right.low > right.high || m - branch.shift < right.low) return;
      const T time = static_cast<T>(branch.cost) + left.At(m) +
                     right.At(static_cast<int>(m - branch.shift));
      found = time == best;
      if (found) chosen = branch;
    });
    EBBTIDE_CHECK(found);
    return chosen;
  }

  const SlotChain c_;
  const Cells cells_;
  const int pairs_;
  std::vector<size_t> first_;
  std::vector<TimeRow<T>> rows_;
  std::vector<Worker> workers_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_ROWS_H_
