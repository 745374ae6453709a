// Random chains with weights for the tests of cycles.
#ifndef EBBTIDE_TESTS_PLANNER_WEIGHT_CHAINS_H_
#define EBBTIDE_TESTS_PLANNER_WEIGHT_CHAINS_H_

#include <algorithm>
#include <random>
#include <set>

#include "planner/chain.h"

namespace ebbtide {

struct WeightKinds {
  bool shared = false;       // some are read by two stages
  bool host_update = false;  // some weights have one
};

// A weight for each stage, with a gradient and for half of them a state, and
// lanes that move them all in one to six steps.
inline Chain WeightChain(uint32_t seed, int stages, WeightKinds kinds = {}) {
  std::mt19937 rng(seed);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % (high - low + 1));
  };
  Chain c;
  c.x.push_back(Bytes{pick(1, 3)});
  c.xb.push_back(c.x[0]);
  for (int i = 0; i < stages; ++i) {
    c.fw.push_back(pick(1, 5));
    c.bw.push_back(pick(2, 9));
    c.ft.push_back(Bytes{pick(0, 2)});
    c.bt.push_back(Bytes{pick(0, 3)});
    c.x.push_back(Bytes{pick(1, 3)});
    c.xb.push_back(c.x.back() + Bytes{pick(0, 4)});
    ChainWeight weight{{i}, Bytes{pick(1, 12)}};
    weight.grad = weight.bytes;
    weight.state = Bytes{2 * Count(weight.bytes) * pick(0, 1)};
    if (kinds.shared && pick(0, 3) == 0) {
      const std::set<int> both = {i, pick(0, stages - 1)};
      weight.stages.assign(both.begin(), both.end());
    }
    if (kinds.host_update && pick(0, 1) == 0) {
      weight.update = pick(0, 2);
      weight.host_update = pick(1, 6);
    }
    c.weights.push_back(weight);
  }
  c.bw.push_back(pick(0, 2));
  c.bt.push_back(Bytes{pick(0, 2)});
  c.d2h = pick(2, 12) / 2.0;
  c.h2d = pick(2, 12) / 2.0;
  return c;
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_WEIGHT_CHAINS_H_
