#include "planner/max_flow.h"

#include <algorithm>

namespace ebbtide {

int MaxFlow::AddEdge(int from, int to, int64_t capacity) {
  const int edge = static_cast<int>(edges_.size());
  out_[from].push_back(edge);
  out_[to].push_back(edge + 1);
  edges_.push_back({to, 0});
  edges_.push_back({from, 0});
  capacity_.push_back(capacity);
  capacity_.push_back(0);
  return edge;
}

bool MaxFlow::Levels(int source, int sink) {
  level_.assign(out_.size(), -1);
  queue_.assign(1, source);
  level_[source] = 0;
  for (size_t k = 0; k < queue_.size(); ++k) {
    for (int e : out_[queue_[k]]) {
      const Edge& edge = edges_[e];
      if (edge.left == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[queue_[k]] + 1;
      queue_.push_back(edge.to);
    }
  }
  return level_[sink] >= 0;
}

// An edge to the next level with room, or -1.
int MaxFlow::Advance(int node) {
  for (int& k = next_[node]; k < static_cast<int>(out_[node].size()); ++k) {
    const Edge& edge = edges_[out_[node][k]];
    if (edge.left > 0 && level_[edge.to] == level_[node] + 1) {
      return out_[node][k];
    }
  }
  return -1;
}

// A blocking flow, path by path; no recursion, paths can be long.
int64_t MaxFlow::Block(int source, int sink) {
  int64_t flow = 0;
  std::vector<int> path;
  int node = source;
  while (true) {
    if (node == sink) {
      int64_t least = edges_[path[0]].left;
      for (int e : path) least = std::min(least, edges_[e].left);
      flow += least;
      size_t full = path.size();
      for (size_t k = path.size(); k-- > 0;) {
        edges_[path[k]].left -= least;
        edges_[path[k] ^ 1].left += least;
        if (edges_[path[k]].left == 0) full = k;
      }
      path.resize(full);
      node = path.empty() ? source : edges_[path.back()].to;
      continue;
    }
    const int edge = Advance(node);
    if (edge >= 0) {
      path.push_back(edge);
      node = edges_[edge].to;
    } else if (path.empty()) {
      return flow;
    } else {
      level_[node] = -1;  // a dead end
      node = edges_[path.back() ^ 1].to;
      path.pop_back();
    }
  }
}

int64_t MaxFlow::Run(int source, int sink) {
  for (size_t e = 0; e < edges_.size(); ++e) edges_[e].left = capacity_[e];
  int64_t flow = 0;
  while (Levels(source, sink)) {
    next_.assign(out_.size(), 0);
    flow += Block(source, sink);
  }
  return flow;
}

}  // namespace ebbtide
