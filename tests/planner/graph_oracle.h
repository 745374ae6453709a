// The least time of a profile within a budget without offload, by Dijkstra's
// search over what is on the device: every order of frees, recomputes and
// stages. Independent of solvers; for profiles of up to some twelve values
// whose saved values are all retainable.
#ifndef EBBTIDE_TESTS_PLANNER_GRAPH_ORACLE_H_
#define EBBTIDE_TESTS_PLANNER_GRAPH_ORACLE_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/profile.h"

namespace ebbtide {

class GraphOracle {
 public:
  GraphOracle(const Profile& profile, Bytes budget)
      : p_(profile), budget_(Count(budget)), ops_(profile.ops.size()) {}

  // Infinity where nothing fits.
  Time LeastTime() {
    if (Count(p_.tail) + Sum(HeldAt(Instants())) > budget_) return kNever;
    const uint32_t all = (1u << p_.values.size()) - 1;
    // Which saved values outlive the forward pass.
    for (uint32_t kept = 0; kept <= all; ++kept) {
      if ((kept & ~SavedMask()) == 0 && ForwardFits(kept)) {
        Reach(0, (kept | HeldAt(ops_)) & SavedMask(), 0);
      }
    }
    while (!queue_.empty()) {
      const auto [time, t, there] = queue_.top();
      queue_.pop();
      if (best_[{t, there}] < time) continue;
      if (t == static_cast<int>(p_.stages.size())) {
        return time + ForwardTime();
      }
      Expand(time, t, there);
    }
    return kNever;
  }

  static constexpr Time kNever = std::numeric_limits<Time>::infinity();

 private:
  int Instants() const { return ops_ + static_cast<int>(p_.stages.size()); }

  uint32_t SavedMask() const {
    uint32_t mask = 0;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].saved) mask |= 1u << v;
    }
    return mask;
  }

  // Values that the script holds while `instant` runs.
  uint32_t HeldAt(int instant) const {
    uint32_t mask = 0;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].released >= instant) mask |= 1u << v;
    }
    return mask;
  }

  int64_t Sum(uint32_t mask) const {
    int64_t sum = 0;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (mask >> v & 1) sum += Count(p_.values[v].bytes);
    }
    return sum;
  }

  Time ForwardTime() const {
    Time sum = 0;
    for (const Op& op : p_.ops) sum += op.time;
    return sum;
  }

  bool ForwardFits(uint32_t kept) const {
    for (int i = 0; i < ops_; ++i) {
      uint32_t there = 0;
      for (size_t v = 0; v < p_.values.size(); ++v) {
        const Value& value = p_.values[v];
        if (!value.saved || value.op > i) continue;
        if (value.released >= i || (kept >> v & 1)) there |= 1u << v;
      }
      if (Sum(there) + Count(p_.ops[i].other) > budget_) return false;
    }
    return true;
  }

  static uint32_t Mask(const std::vector<int>& values) {
    uint32_t mask = 0;
    for (int v : values) mask |= 1u << v;
    return mask;
  }

  void Reach(int t, uint32_t there, Time time) {
    const auto [it, fresh] = best_.try_emplace({t, there}, time);
    if (!fresh && it->second <= time) return;
    it->second = time;
    queue_.push({time, t, there});
  }

  // `there`: counted values on the device before stage t.
  void Expand(Time time, int t, uint32_t there) {
    const uint32_t held = HeldAt(ops_ + t);
    const uint32_t readable = there | held;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if ((there & ~held) >> v & 1) Reach(t, there & ~(1u << v), time);
    }
    for (const Op& op : p_.ops) {
      const uint32_t made = Mask(op.outputs) & ~readable;
      const uint32_t inputs = Mask(op.inputs);
      if (!op.replayable || made == 0 || (inputs & ~readable) != 0) continue;
      const int64_t live =
          Count(p_.stages[t].before) + Sum(there | made) + Count(op.scratch);
      if (live <= budget_) Reach(t, there | made, time + op.time);
    }
    const Stage& stage = p_.stages[t];
    if ((Mask(stage.needs) & ~readable) != 0) return;
    if (Sum(there) + Count(stage.during) > budget_) return;
    Reach(t + 1, there, time + stage.time);
  }

  const Profile& p_;
  const int64_t budget_;
  const int ops_;
  std::map<std::pair<int, uint32_t>, Time> best_;
  using Entry = std::tuple<Time, int, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_GRAPH_ORACLE_H_
