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
  explicit MaxFlow(int nodes) : first_(nodes + 1, 0) {}

  // Returns the edge, for SetCapacity. Capacities are at least 0 and the sum of
  // those out of a source stays below 2^63. No edge is added after a Run.
  int AddEdge(int from, int to, int64_t capacity);
  void SetCapacity(int edge, int64_t capacity) {
    edges_[edge].capacity = capacity;
  }

  // The flow from `source` to `sink`. Edges run both ways again at a new call.
  int64_t Run(int source, int sink);
  // After Run: whether `node` is on the source's side of the least cut that is
  // nearest to the source.
  bool OnSourceSide(int node) const { return level_[node] >= 0; }

 private:
  struct Edge {
    int from;
    int to;
    int64_t capacity;
    int arc = -1;  // its forward one
  };
  struct Arc {
    int to;
    int back;  // the arc the other way
    int64_t left;
  };

  void Arrange();
  void Restore();
  bool Levels(int source, int sink);
  int64_t Block(int source, int sink);
  int Advance(int node);

  std::vector<Edge> edges_;
  std::vector<Arc> arcs_;   // by node, so that a node's lie side by side
  std::vector<int> first_;  // index in arcs_, by node, and the end
  std::vector<int> level_;
  std::vector<int> next_;  // index in arcs_, by node
  std::vector<int> queue_;
  std::vector<int> path_;  // indices in arcs_
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_MAX_FLOW_H_
