#include "planner/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace ebbtide {
namespace {

struct Edge {
  int from;
  int to;
  int64_t capacity;
};

// The least cut by trying them all; node 0 is the source, the last the sink.
int64_t LeastCut(int nodes, const std::vector<Edge>& edges) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (uint32_t side = 0; side < (1u << nodes); ++side) {
    if (!(side & 1) || (side >> (nodes - 1) & 1)) continue;
    int64_t cut = 0;
    for (const Edge& e : edges) {
      if ((side >> e.from & 1) && !(side >> e.to & 1)) cut += e.capacity;
    }
    least = std::min(least, cut);
  }
  return least;
}

TEST(MaxFlowTest, EqualsTheLeastCutAndLeavesItBehind) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 rng(seed);
    const int nodes = 2 + rng() % 7;
    std::vector<Edge> edges;
    MaxFlow flow(nodes);
    for (int k = rng() % 20; k > 0; --k) {
      const Edge e{static_cast<int>(rng() % nodes),
                   static_cast<int>(rng() % nodes),
                   static_cast<int64_t>(rng() % 12)};
      edges.push_back(e);
      flow.AddEdge(e.from, e.to, e.capacity);
    }
    const int64_t least = LeastCut(nodes, edges);
    ASSERT_EQ(flow.Run(0, nodes - 1), least) << seed;
    int64_t cut = 0;
    for (const Edge& e : edges) {
      if (flow.OnSourceSide(e.from) && !flow.OnSourceSide(e.to)) {
        cut += e.capacity;
      }
    }
    EXPECT_EQ(cut, least) << seed;
  }
}

TEST(MaxFlowTest, RunsAgainWithOtherCapacities) {
  MaxFlow flow(3);
  const int first = flow.AddEdge(0, 1, 5);
  flow.AddEdge(1, 2, 7);
  EXPECT_EQ(flow.Run(0, 2), 5);
  flow.SetCapacity(first, 9);
  EXPECT_EQ(flow.Run(0, 2), 7);
  EXPECT_EQ(flow.Run(0, 2), 7);
}

}  // namespace
}  // namespace ebbtide
