#include "planner/separators.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace ebbtide {
namespace {

// By value: the last op that uses it, by itself or in its stage.
std::vector<int> Reaches(const Graph& graph, const Uses& uses) {
  const std::vector<int> homes = HomesOf(graph);
  std::vector<int> reach = uses.last_reader;
  for (int v = 0; v < graph.values; ++v) {
    const int stage = uses.first_stage[v];
    if (stage < graph.stages) reach[v] = std::max(reach[v], homes[stage]);
  }
  return reach;
}

// The values that cross the border before each op, kept up to date along the
// ops.
class Crossing {
 public:
  Crossing(const Graph& graph, const Uses& uses)
      : graph_(graph), leaving_(graph.ops) {
    const std::vector<int> reach = Reaches(graph, uses);
    for (int v = 0; v < graph.values; ++v) {
      const bool chosen =
          uses.kept[v] && !graph.pinned[v] && graph.held[v] < graph.stages - 1;
      if (chosen && reach[v] > graph.op[v]) leaving_[reach[v]].push_back(v);
      crosses_.push_back(chosen && reach[v] > graph.op[v]);
    }
  }

  void Pass(int op) {
    for (int v : graph_.outputs[op]) {
      if (crosses_[v]) Add(v);
    }
    for (int v : leaving_[op]) Remove(v);
  }
  bool IsSeparator() const {
    return sizes_.empty() ||
           static_cast<double>(*sizes_.rbegin()) >= kMainShare * bytes_;
  }
  int64_t bytes() const { return bytes_; }
  std::vector<int> values() const { return {values_.begin(), values_.end()}; }

 private:
  void Add(int v) {
    values_.insert(v);
    sizes_.insert(graph_.bytes[v]);
    bytes_ += graph_.bytes[v];
  }
  void Remove(int v) {
    values_.erase(v);
    sizes_.erase(sizes_.find(graph_.bytes[v]));
    bytes_ -= graph_.bytes[v];
  }

  const Graph& graph_;
  std::vector<std::vector<int>> leaving_;  // values by the last op to use them
  std::vector<char> crosses_;              // by value
  std::set<int> values_;
  std::multiset<int64_t> sizes_;
  int64_t bytes_ = 0;
};

}  // namespace

std::vector<Border> Separators(const Graph& graph, const Uses& uses) {
  std::vector<Border> found;
  std::vector<int64_t> sizes;
  Crossing crossing(graph, uses);
  std::vector<int> before;
  for (int op = 1; op < graph.ops; ++op) {
    crossing.Pass(op - 1);
    if (!crossing.IsSeparator()) continue;
    std::vector<int> values = crossing.values();
    if (values == before) continue;
    before = values;
    sizes.push_back(crossing.bytes());
    found.push_back({op, std::move(values)});
  }
  std::vector<int> order(found.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return sizes[a] < sizes[b]; });
  if (order.size() >= kMostBlocks) order.resize(kMostBlocks - 1);
  std::sort(order.begin(), order.end());
  std::vector<Border> borders = {{}};
  for (int k : order) borders.push_back(std::move(found[k]));
  borders.push_back({graph.ops, {}});
  return borders;
}

}  // namespace ebbtide
