// The least time of a chain within a budget, by Dijkstra's search over what is
// on the device: every x and xb, and how far the gradient has come. Knows
// nothing of solvers; for chains of up to some eight stages without options.
#ifndef EBBTIDE_TESTS_PLANNER_CHAIN_ORACLE_H_
#define EBBTIDE_TESTS_PLANNER_CHAIN_ORACLE_H_

#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "planner/chain.h"

namespace ebbtide {

// Infinity where no order of operations fits.
inline Time LeastTime(const Chain& chain, Bytes budget) {
  struct State {
    uint32_t x;    // bit i: x[i] is there; bit 0 always
    uint32_t xb;   // bit i: xb[i] is there
    int gradient;  // i: y[i] is there; L + 1: none yet
    bool operator<(const State& o) const {
      return std::tie(x, xb, gradient) < std::tie(o.x, o.xb, o.gradient);
    }
  };
  const int stages = Stages(chain);
  const auto live = [&](const State& s) {
    int64_t sum = 0;
    for (int i = 0; i <= stages; ++i) {
      if (s.x >> i & 1) sum += Count(chain.x[i]);
      if (s.xb >> i & 1) sum += Count(chain.xb[i]);
    }
    if (s.gradient <= stages) sum += Count(chain.x[s.gradient]);
    return sum;
  };
  using Entry = std::tuple<Time, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::map<State, Time> best;
  const auto reach = [&](State s, Time time) {
    const auto [it, fresh] = best.try_emplace(s, time);
    if (!fresh && it->second <= time) return;
    it->second = time;
    queue.push({time, s});
  };
  reach({1, 0, stages + 1}, 0);
  while (!queue.empty()) {
    const auto [time, state] = queue.top();
    const State& s = state;  // a lambda cannot capture what is bound
    queue.pop();
    if (best[s] < time) continue;
    if (s.gradient == 0) return time;
    const int64_t room = Count(budget) - live(s);
    const auto has = [&](int i) { return ((s.x | s.xb) >> i & 1) != 0; };
    for (int i = 1; i <= stages; ++i) {
      if (s.x >> i & 1) reach({s.x & ~(1u << i), s.xb, s.gradient}, time);
      if (s.xb >> i & 1) reach({s.x, s.xb & ~(1u << i), s.gradient}, time);
    }
    for (int i = 0; i < stages; ++i) {
      if (!has(i) || has(i + 1)) continue;
      const int64_t ft = Count(chain.ft[i]);
      const uint32_t made = 1u << (i + 1);
      if (Count(chain.x[i + 1]) + ft <= room) {
        reach({s.x | made, s.xb, s.gradient}, time + chain.fw[i]);
      }
      if (Count(chain.xb[i + 1]) + ft <= room) {
        reach({s.x, s.xb | made, s.gradient}, time + chain.fw[i]);
      }
    }
    const int i = s.gradient - 1;  // the next backward; L is the loss
    if (!has(i) || (i < stages && !(s.xb >> (i + 1) & 1))) continue;
    if (Count(chain.x[i]) + Count(chain.bt[i]) <= room) {
      reach({s.x, s.xb, i}, time + chain.bw[i]);
    }
  }
  return std::numeric_limits<Time>::infinity();
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_CHAIN_ORACLE_H_
