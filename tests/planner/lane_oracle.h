// The least time of a profile within a budget with offload, by Dijkstra's
// search over every order of actions: frees, copies both ways, recomputes.
// Independent of solvers; for profiles of some five values whose saved values
// are all retainable and whose host tier has no limit.
#ifndef EBBTIDE_TESTS_PLANNER_LANE_ORACLE_H_
#define EBBTIDE_TESTS_PLANNER_LANE_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "planner/profile.h"

namespace ebbtide {

class LaneOracle {
 public:
  // With `once` no offload starts after the forward pass.
  LaneOracle(const Profile& profile, Bytes budget, bool once = false)
      : p_(profile),
        budget_(Count(budget)),
        ops_(profile.ops.size()),
        once_(once) {}

  // Infinity where nothing fits.
  Time LeastTime() {
    State start;
    start.where.assign(p_.values.size(), kAway);
    start.ready.assign(p_.values.size(), 0);
    start.gone.assign(p_.values.size(), 0);
    Reach(start);
    while (!queue_.empty()) {
      const State state = queue_.top().state;
      queue_.pop();
      if (state.next == Instants()) {
        State end = state;
        if (Wait(Count(p_.tail), &end)) Finish(end.clock);
        continue;
      }
      if (state.clock >= best_) break;
      Expand(state);
    }
    return best_;
  }

  static constexpr Time kNever = std::numeric_limits<Time>::infinity();

 private:
  static constexpr char kAway = 'a', kScript = 's', kDevice = 'd', kHost = 'h';

  struct State {
    int next = 0;       // instant to come
    bool back = false;  // the backward pass has begun
    std::string where;  // by value
    Time clock = 0, d2h = 0, h2d = 0;
    std::vector<Time> ready;  // by value: end of the last copy
    std::vector<Time> gone;   // by value: until then an offload holds bytes
  };
  struct Entry {
    State state;
    bool operator<(const Entry& other) const {
      return state.clock > other.state.clock;
    }
  };

  int Instants() const { return ops_ + static_cast<int>(p_.stages.size()); }
  int64_t Size(int v) const { return Count(p_.values[v].bytes); }
  int Values() const { return static_cast<int>(p_.values.size()); }

  void Finish(Time time) { best_ = std::min(best_, time); }

  int64_t Resident(const State& s) const {
    int64_t bytes = 0;
    for (int v = 0; v < Values(); ++v) {
      if (s.where[v] == kDevice) bytes += Size(v);
      if (s.gone[v] > s.clock) bytes += Size(v);
    }
    return bytes;
  }

  // Until `extra` bytes fit beside what is there. False if they never do.
  bool Wait(int64_t extra, State* s) const {
    while (Resident(*s) + extra > budget_) {
      Time next = kNever;
      for (Time gone : s->gone) {
        if (gone > s->clock) next = std::min(next, gone);
      }
      if (next == kNever) return false;
      s->clock = next;
    }
    return true;
  }

  bool Await(const std::vector<int>& values, State* s) const {
    for (int v : values) {
      if (s->where[v] != kDevice && s->where[v] != kScript) return false;
      s->clock = std::max(s->clock, s->ready[v]);
    }
    return true;
  }

  static bool NoLater(const State& a, const State& b) {
    bool none = a.back <= b.back && a.clock <= b.clock && a.d2h <= b.d2h &&
                a.h2d <= b.h2d;
    for (size_t v = 0; v < a.ready.size(); ++v) {
      none = none && a.ready[v] <= b.ready[v] && a.gone[v] <= b.gone[v];
    }
    return none;
  }

  void Reach(State s) {
    // Copies of the past are over.
    s.d2h = std::max(s.d2h, s.clock);
    s.h2d = std::max(s.h2d, s.clock);
    for (Time& time : s.ready) time = std::max(time, s.clock);
    for (Time& time : s.gone) time = std::max(time, s.clock);
    std::vector<State>& known = known_[{s.next, s.where}];
    for (const State& k : known) {
      if (NoLater(k, s)) return;
    }
    known.push_back(s);
    queue_.push({std::move(s)});
  }

  void Expand(const State& s) {
    Proceed(s);
    for (int v = 0; v < Values(); ++v) {
      if (s.where[v] == kDevice && p_.values[v].released < s.next) Leave(s, v);
    }
    if (s.next < ops_) return;
    for (int v = 0; v < Values(); ++v) {
      if (s.where[v] == kHost) Restore(s, v);
    }
    for (int i = 0; i < ops_; ++i) Recompute(s, i);
  }

  // A value that is still on its way here goes nowhere else: that gains
  // nothing.
  void Leave(const State& s, int v) {
    if (s.ready[v] > s.clock) return;
    State freed = s;
    freed.where[v] = kAway;
    Reach(freed);
    if (!p_.values[v].movable || p_.d2h <= 0 || (once_ && s.back)) return;
    State moved = s;
    moved.where[v] = kHost;
    moved.d2h = std::max(s.clock, s.d2h) + Size(v) / p_.d2h;
    moved.ready[v] = moved.gone[v] = moved.d2h;
    Reach(moved);
  }

  void Restore(const State& s, int v) {
    State next = s;
    if (!Wait(Count(Before(s)) + Size(v), &next)) return;
    const Time start = std::max({next.clock, next.h2d, next.ready[v]});
    next.h2d = next.ready[v] = start + Size(v) / p_.h2d;
    next.where[v] = kDevice;
    next.back = true;
    Reach(next);
  }

  Bytes Before(const State& s) const { return p_.stages[s.next - ops_].before; }

  void Recompute(const State& s, int i) {
    const Op& op = p_.ops[i];
    State next = s;
    int64_t made = 0;
    for (int v : op.outputs) {
      if (s.where[v] == kHost) return;
      if (s.where[v] == kAway) made += Size(v);
    }
    if (!op.replayable || !Await(op.inputs, &next)) return;
    if (!Wait(Count(Before(s)) + made + Count(op.scratch), &next)) return;
    for (int v : op.outputs) {
      if (next.where[v] == kAway) next.where[v] = kDevice;
    }
    if (next.where == s.where) return;
    next.clock += op.time;
    next.back = true;
    Reach(next);
  }

  // The instant to come.
  void Proceed(const State& s) {
    State next = s;
    if (s.next < ops_) {
      const Op& op = p_.ops[s.next];
      int64_t made = 0;
      for (int v : op.outputs) made += p_.values[v].saved ? Size(v) : 0;
      if (!Await(op.inputs, &next) || !Wait(Count(op.other) + made, &next)) {
        return;
      }
      for (int v : op.outputs) {
        next.where[v] = p_.values[v].saved ? kDevice : kScript;
      }
      next.clock += op.time;
    } else {
      const Stage& stage = p_.stages[s.next - ops_];
      if (!Await(stage.needs, &next)) return;
      if (!Wait(Count(stage.during), &next)) return;
      next.clock += stage.time;
      next.back = true;
    }
    for (int v = 0; v < Values(); ++v) {
      if (next.where[v] != kScript) continue;
      if (p_.values[v].released == s.next) next.where[v] = kAway;
    }
    ++next.next;
    Reach(next);
  }

  const Profile& p_;
  const int64_t budget_;
  const int ops_;
  const bool once_;
  Time best_ = kNever;
  std::priority_queue<Entry> queue_;
  std::map<std::pair<int, std::string>, std::vector<State>> known_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_LANE_ORACLE_H_
