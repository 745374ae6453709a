// The least time of a chain whose values may move to the host, by best-first
// search over every instant at which something starts or ends: where each
// stage's output is and in which form, how far the gradient has come, and what
// is left of the forward or backward op and of the copy on each lane.
// Independent of solvers; for chains of up to six stages without options, with
// small whole times and one slot per unit of time on both lanes.
#ifndef EBBTIDE_TESTS_PLANNER_MOVING_ORACLE_H_
#define EBBTIDE_TESTS_PLANNER_MOVING_ORACLE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/chain.h"

namespace ebbtide {

class MovingOracle {
 public:
  MovingOracle(const Chain& chain, Bytes budget)
      : c_(chain), budget_(Count(budget)), stages_(Stages(chain)) {}

  // Infinity where nothing fits, nothing after that many states.
  std::optional<Time> Solve(size_t most_states) {
    State start;
    start.place[0] = kX;
    Reach(start, 0);
    size_t states = 0;
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (best_[entry.code] < entry.time) continue;
      const State s = Decode(entry.code);
      if (s.gradient == 0 && s.op == kIdle) return entry.time;
      if (++states > most_states) return std::nullopt;
      StartNothing(s, entry.time);
      TryFrees(s, entry.time);
      TryCopies(s, entry.time);
      if (s.op == kIdle) TryOps(s, entry.time);
    }
    return std::numeric_limits<Time>::infinity();
  }

 private:
  // Odd: x alone, even: in the saved set.
  enum Place {
    kAbsent,
    kX,
    kXb,
    kLeavingX,
    kLeavingXb,
    kBothX,  // copied, and still there
    kBothXb,
    kHostX,
    kHostXb,
    kReturningX,
    kReturningXb,
    kQueuedX,
    kQueuedXb,
    kPlaces
  };
  static constexpr int kMost = 6;
  static constexpr int kIdle = 0;
  static constexpr int kNone = kMost + 1;  // no gradient yet

  struct State {
    std::array<uint8_t, kMost + 1> place{};  // place of output i; 0: x[0]
    int gradient = kNone;
    int op = kIdle;  // 1 + 3 i + {0: forward, 1: saving, 2: backward or loss}
    int op_left = 0;
    int out_left = 0;
    int in_left = 0;
  };
  struct Entry {
    int bound;
    int time;
    uint64_t code;
    bool operator<(const Entry& other) const { return bound > other.bound; }
  };

  uint64_t Encode(const State& s) const {
    uint64_t code = 0;
    for (int i = 0; i <= stages_; ++i) code = code * kPlaces + s.place[i];
    for (int field : {s.gradient, s.op, s.op_left, s.out_left, s.in_left}) {
      code = code << 5 | static_cast<uint64_t>(field);
    }
    return code;
  }
  State Decode(uint64_t code) const {
    State s;
    for (int* field :
         {&s.in_left, &s.out_left, &s.op_left, &s.op, &s.gradient}) {
      *field = static_cast<int>(code & 31);
      code >>= 5;
    }
    for (int i = stages_; i >= 0; --i) {
      s.place[i] = static_cast<uint8_t>(code % kPlaces);
      code /= kPlaces;
    }
    return s;
  }

  void Reach(const State& s, int time) {
    const uint64_t code = Encode(s);
    const auto [at, is_new] = best_.insert({code, time});
    if (!is_new && at->second <= time) return;
    at->second = time;
    queue_.push({time + AtLeast(s), time, code});
  }

  static bool IsSaved(int place) { return place != kAbsent && place % 2 == 0; }
  static bool IsHere(int place) {
    return (place >= kX && place <= kBothXb) || place >= kQueuedX;
  }
  static bool TakesRoom(int place) {
    return place != kAbsent && place != kHostX && place != kHostXb;
  }
  int64_t Size(int i, int place) const {
    return Count(IsSaved(place) ? c_.xb[i] : c_.x[i]);
  }
  int Stage(const State& s) const { return (s.op - 1) / 3; }
  int Kind(const State& s) const { return (s.op - 1) % 3; }

  // Every backward that is left, and a forward for each saved set that is
  // nowhere.
  int AtLeast(const State& s) const {
    int next = s.gradient == kNone ? stages_ : s.gradient - 1;
    double sum = s.op_left;
    if (s.op != kIdle && Kind(s) == 2) next = Stage(s) - 1;
    for (int i = next; i >= 0; --i) {
      sum += c_.bw[i];
      if (i == stages_ || IsSaved(s.place[i + 1])) continue;
      if (s.op == 1 + 3 * i + 1) continue;
      sum += c_.fw[i];
    }
    return static_cast<int>(sum);
  }

  int64_t Live(const State& s) const {
    int64_t live = 0;
    for (int i = 0; i <= stages_; ++i) {
      if (TakesRoom(s.place[i])) live += Size(i, s.place[i]);
    }
    if (s.gradient != kNone) live += Count(c_.x[s.gradient]);
    return s.op == kIdle ? live : live + Takes(Stage(s), Kind(s));
  }
  int64_t Takes(int i, int kind) const {
    if (kind == 2) return Count(c_.x[i]) + Count(c_.bt[i]);
    return Count(kind == 1 ? c_.xb[i + 1] : c_.x[i + 1]) + Count(c_.ft[i]);
  }

  bool IsRead(const State& s, int i) const {
    if (s.op == kIdle) return false;
    return Stage(s) == i || (Kind(s) == 2 && Stage(s) + 1 == i);
  }

  void TryFrees(const State& s, int time) {
    for (int i = 0; i <= stages_; ++i) {
      const int place = s.place[i];
      if (IsRead(s, i)) continue;
      State next = s;
      if (i > 0 && (place == kX || place == kXb)) {
        next.place[i] = kAbsent;
      } else if (place == kBothX || place == kBothXb) {
        next.place[i] = static_cast<uint8_t>(place - kBothX + kHostX);
      } else {
        continue;
      }
      Reach(next, time);
    }
  }

  // Copies out are asked for before the loss, and start then or later.
  void TryCopies(const State& s, int time) {
    const bool before_loss = s.gradient == kNone && s.op != 1 + 3 * stages_ + 2;
    for (int i = 0; i <= stages_; ++i) {
      const int place = s.place[i];
      const bool here = (place == kX || place == kXb) && before_loss;
      if (s.out_left > 0 && here && s.op == kIdle) {
        Copy(s, i, place - kX + kQueuedX, time);
      } else if (s.out_left == 0 && (here || place >= kQueuedX)) {
        Copy(s, i, IsSaved(place) ? kLeavingXb : kLeavingX, time);
      } else if (s.in_left == 0 && (place == kHostX || place == kHostXb) &&
                 s.gradient != kNone && Size(i, place) <= budget_ - Live(s)) {
        Copy(s, i, place - kHostX + kReturningX, time);
      }
    }
  }

  void Copy(State s, int i, int place, int time) {
    s.place[i] = static_cast<uint8_t>(place);
    const int takes = static_cast<int>(Size(i, place));
    if (place == kLeavingX || place == kLeavingXb) s.out_left = takes;
    if (place == kReturningX || place == kReturningXb) s.in_left = takes;
    Reach(s, time);
  }

  void TryOps(const State& s, int time) {
    const int64_t room = budget_ - Live(s);
    const auto is_there = [&](int i) { return IsHere(s.place[i]); };
    const auto start = [&](int i, int kind, double takes) {
      if (Takes(i, kind) > room) return;
      State next = s;
      next.op = 1 + 3 * i + kind;
      next.op_left = static_cast<int>(takes);
      Reach(next, time);
    };
    for (int i = 0; i < stages_; ++i) {
      if (!is_there(i) || s.place[i + 1] != kAbsent) continue;
      start(i, 0, c_.fw[i]);
      start(i, 1, c_.fw[i]);
    }
    const int i = s.gradient == kNone ? stages_ : s.gradient - 1;
    if (!is_there(i) || (i < stages_ && s.place[i + 1] != kXb)) return;
    start(i, 2, c_.bw[i]);
  }

  // Time passes until something ends.
  void StartNothing(const State& s, int time) {
    int step = std::numeric_limits<int>::max();
    if (s.op != kIdle) step = s.op_left;
    for (int left : {s.out_left, s.in_left}) {
      if (left > 0) step = std::min(step, left);
    }
    if (step == std::numeric_limits<int>::max()) return;
    State next = s;
    for (int* left : {&next.out_left, &next.in_left}) {
      if (*left > 0) *left -= step;
    }
    for (int i = 0; i <= stages_; ++i) {
      uint8_t& place = next.place[i];
      const bool leaving = place == kLeavingX || place == kLeavingXb;
      const bool returning = place == kReturningX || place == kReturningXb;
      if (leaving && next.out_left == 0) place += kBothX - kLeavingX;
      if (returning && next.in_left == 0) place -= kReturningX - kX;
    }
    if (s.op != kIdle) EndOp(step, &next);
    Reach(next, time + step);
  }

  void EndOp(int step, State* s) const {
    s->op_left -= step;
    if (s->op_left > 0) return;
    const int i = Stage(*s);
    const int kind = Kind(*s);
    s->op = kIdle;
    if (kind < 2) {
      s->place[i + 1] = kind == 0 ? kX : kXb;
    } else {
      s->gradient = i;
      if (i < stages_) s->place[i + 1] = kAbsent;
    }
  }

  const Chain& c_;
  const int64_t budget_;
  const int stages_;
  absl::flat_hash_map<uint64_t, int> best_;
  std::priority_queue<Entry> queue_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_MOVING_ORACLE_H_
