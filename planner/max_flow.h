// Maximum flow by Dinic's algorithm (1970) with integer capacities. The
// network is built once; capacities may be set anew for each run.
// Private to the planner.
#ifndef EBBTIDE_PLANNER_MAX_FLOW_H_
#define EBBTIDE_PLANNER_MAX_FLOW_H_

#include <cstdint>
#include <vector>

namespace ebbtide {

class MaxFlow {
 public:
  explicit MaxFlow(int nodes) : out_(nodes) {}

  // Returns the edge, for SetCapacity. Capacities are at least 0 and the sum of
  // those out of a source stays below 2^63.
  int AddEdge(int from, int to, int64_t capacity);
  void SetCapacity(int edge, int64_t capacity) { capacity_[edge] = capacity; }

  // The flow from `source` to `sink`. Edges run both ways again at a new call.
  int64_t Run(int source, int sink);
  // After Run: whether `node` is on the source's side of the least cut that is
  // nearest to the source.
  bool OnSourceSide(int node) const { return level_[node] >= 0; }

 private:
  struct Edge {
    int to;
    int64_t left;
  };

  bool Levels(int source, int sink);
  int64_t Block(int source, int sink);
  int Advance(int node);

  std::vector<std::vector<int>> out_;  // edges by node; odd ones run back
  std::vector<Edge> edges_;
  std::vector<int64_t> capacity_;
  std::vector<int> level_;
  std::vector<int> next_;  // of out_, by node
  std::vector<int> queue_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_MAX_FLOW_H_
