// The least time of a chain within a budget, by Dijkstra's search over what is
// on the device: each stage's output as x, as a saved set in one of its ways,
// or not at all, and how far the gradient has come. Independent of solvers; for
// chains of up to some eight stages, ten without options.
#ifndef EBBTIDE_TESTS_PLANNER_CHAIN_ORACLE_H_
#define EBBTIDE_TESTS_PLANNER_CHAIN_ORACLE_H_

#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "planner/chain.h"

namespace ebbtide {

// Pinned: a saved set keeps the input of its stage alive, as autograd does;
// unpinned: that input may be dropped and recomputed before the backward.
enum class Inputs { kUnpinned, kPinned };

class ChainOracle {
 public:
  ChainOracle(const Chain& chain, Bytes budget, Inputs inputs)
      : chain_(chain),
        budget_(Count(budget)),
        pinned_(inputs == Inputs::kPinned),
        stages_(Stages(chain)) {
    for (int i = 0; i < stages_; ++i) {
      ways_.push_back(SavingWays(chain, i));
      forms_ = std::max(forms_, static_cast<int>(ways_[i].size()) + 2);
    }
  }

  // Infinity where no order of operations fits.
  Time Solve() {
    size_t states = stages_ + 2;
    for (int i = 0; i < stages_; ++i) states *= forms_;
    best_.assign(states, std::numeric_limits<Time>::infinity());
    State start{std::vector<int>(stages_ + 1, 0), stages_ + 1};
    start.form[0] = 1;
    Reach(start, 0);
    while (!queue_.empty()) {
      const auto [time, code] = queue_.top();
      queue_.pop();
      if (best_[code] < time) continue;
      const State state = Decode(code);
      if (state.gradient == 0) return time;
      TryDrops(state, time);
      TryForwards(state, time);
      TryBackward(state, time);
    }
    return std::numeric_limits<Time>::infinity();
  }

 private:
  struct State {
    std::vector<int> form;  // form of output i: 0 absent, 1 x[i], w + 2 saved
                            // set
    int gradient;           // i: y[i] is there; L + 1: none yet
  };

  size_t Encode(const State& s) const {
    size_t code = s.gradient;
    for (int i = 1; i <= stages_; ++i) code = code * forms_ + s.form[i];
    return code;
  }

  State Decode(size_t code) const {
    State s{std::vector<int>(stages_ + 1, 1), 0};
    for (int i = stages_; i >= 1; --i) {
      s.form[i] = static_cast<int>(code % forms_);
      code /= forms_;
    }
    s.gradient = static_cast<int>(code);
    return s;
  }

  void Reach(const State& s, Time time) {
    const size_t code = Encode(s);
    if (best_[code] <= time) return;
    best_[code] = time;
    queue_.push({time, code});
  }

  int64_t Room(const State& s) const {
    int64_t live = 0;
    for (int i = 0; i <= stages_; ++i) {
      if (s.form[i] == 1) live += Count(chain_.x[i]);
      if (s.form[i] > 1) live += Count(ways_[i - 1][s.form[i] - 2].xb);
    }
    if (s.gradient <= stages_) live += Count(chain_.x[s.gradient]);
    return budget_ - live;
  }

  // Any output goes, or shrinks from a saved set to x alone.
  void TryDrops(const State& s, Time time) {
    for (int i = 1; i <= stages_; ++i) {
      if (s.form[i] == 0) continue;
      State next = s;
      next.form[i] = 1;
      Reach(next, time);
      if (pinned_ && i < stages_ && s.form[i + 1] > 1) continue;
      next.form[i] = 0;
      Reach(next, time);
    }
  }

  void TryForwards(const State& s, Time time) {
    const int64_t room = Room(s);
    for (int i = 0; i < stages_; ++i) {
      if (s.form[i] == 0 || s.form[i + 1] != 0) continue;
      State next = s;
      next.form[i + 1] = 1;
      if (Count(chain_.x[i + 1]) + Count(chain_.ft[i]) <= room) {
        Reach(next, time + chain_.fw[i]);
      }
      for (size_t w = 0; w < ways_[i].size(); ++w) {
        const ChainOption& way = ways_[i][w];
        next.form[i + 1] = static_cast<int>(w) + 2;
        if (Count(way.xb) + Count(way.ft) <= room) Reach(next, time + way.fw);
      }
    }
  }

  void TryBackward(const State& s, Time time) {
    const int i = s.gradient - 1;  // L is the loss
    if (s.form[i] == 0) return;
    State next = s;
    next.gradient = i;
    int64_t workspace = Count(chain_.bt[stages_]);
    Time takes = chain_.bw[stages_];
    if (i < stages_) {
      if (s.form[i + 1] < 2) return;
      const ChainOption& way = ways_[i][s.form[i + 1] - 2];
      workspace = Count(way.bt);
      takes = way.bw;
      next.form[i + 1] = 0;
    }
    if (Count(chain_.x[i]) + workspace <= Room(s)) Reach(next, time + takes);
  }

  const Chain& chain_;
  const int64_t budget_;
  const bool pinned_;
  const int stages_;
  int forms_ = 0;
  std::vector<std::vector<ChainOption>> ways_;
  std::vector<Time> best_;
  using Entry = std::pair<Time, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

inline Time LeastTime(const Chain& chain, Bytes budget,
                      Inputs inputs = Inputs::kUnpinned) {
  return ChainOracle(chain, budget, inputs).Solve();
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_CHAIN_ORACLE_H_
