#include "planner/max_flow.h"

#include <algorithm>

namespace ebbtide {

int MaxFlow::AddEdge(int from, int to, int64_t capacity) {
  edges_.push_back({from, to, capacity});
  return static_cast<int>(edges_.size()) - 1;
}

void MaxFlow::Arrange() {
  std::fill(first_.begin(), first_.end(), 0);
  for (const Edge& edge : edges_) {
    ++first_[edge.from + 1];
    ++first_[edge.to + 1];
  }
  for (size_t k = 1; k < first_.size(); ++k) first_[k] += first_[k - 1];
  next_.assign(first_.begin(), first_.end() - 1);
  arcs_.resize(2 * edges_.size());
  for (Edge& edge : edges_) {
    edge.arc = next_[edge.from]++;
    const int back = next_[edge.to]++;
    arcs_[edge.arc] = {edge.to, back, 0};
    arcs_[back] = {edge.from, edge.arc, 0};
  }
}

void MaxFlow::Restore() {
  for (const Edge& edge : edges_) {
    Arc& arc = arcs_[edge.arc];
    arc.left = edge.capacity;
    arcs_[arc.back].left = 0;
  }
}

// Ends at the sink: no node at its distance is on a shortest path.
bool MaxFlow::Levels(int source, int sink) {
  std::fill(level_.begin(), level_.end(), -1);
  queue_.assign(1, source);
  level_[source] = 0;
  for (size_t k = 0; k < queue_.size(); ++k) {
    const int node = queue_[k];
    for (int a = first_[node]; a < first_[node + 1]; ++a) {
      const Arc& arc = arcs_[a];
      if (arc.left == 0 || level_[arc.to] >= 0) continue;
      level_[arc.to] = level_[node] + 1;
      if (arc.to == sink) return true;
      queue_.push_back(arc.to);
    }
  }
  return false;
}

// An arc to the next level with room, or -1.
int MaxFlow::Advance(int node) {
  for (int& a = next_[node]; a < first_[node + 1]; ++a) {
    const Arc& arc = arcs_[a];
    if (arc.left > 0 && level_[arc.to] == level_[node] + 1) return a;
  }
  return -1;
}

// A blocking flow, path by path; no recursion, paths can be long.
int64_t MaxFlow::Block(int source, int sink) {
  int64_t flow = 0;
  path_.clear();
  int node = source;
  while (true) {
    if (node == sink) {
      int64_t least = arcs_[path_[0]].left;
      for (int a : path_) least = std::min(least, arcs_[a].left);
      flow += least;
      size_t full = path_.size();
      for (size_t k = path_.size(); k-- > 0;) {
        Arc& arc = arcs_[path_[k]];
        arc.left -= least;
        arcs_[arc.back].left += least;
        if (arc.left == 0) full = k;
      }
      path_.resize(full);
      node = path_.empty() ? source : arcs_[path_.back()].to;
      continue;
    }
    const int a = Advance(node);
    if (a >= 0) {
      path_.push_back(a);
      node = arcs_[a].to;
    } else if (path_.empty()) {
      return flow;
    } else {
      level_[node] = -1;  // a dead end
      node = arcs_[arcs_[path_.back()].back].to;
      path_.pop_back();
    }
  }
}

int64_t MaxFlow::Run(int source, int sink) {
  if (arcs_.empty()) Arrange();
  Restore();
  const int nodes = static_cast<int>(first_.size()) - 1;
  level_.resize(nodes);
  int64_t flow = 0;
  while (Levels(source, sink)) {
    next_.assign(first_.begin(), first_.end() - 1);
    flow += Block(source, sink);
  }
  return flow;
}

}  // namespace ebbtide
