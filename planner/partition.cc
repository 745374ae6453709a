#include "planner/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/grouping.h"

namespace ebbtide {
namespace {

constexpr int kNone = -1;

class Tree {
 public:
  Tree(const Graph& graph, const Uses& uses)
      : graph_(graph), homes_(HomesOf(graph)), crossing_(graph.ops + 1, 0) {
    for (int v = 0; v < graph.values; ++v) {
      if (!uses.kept[v] || uses.last_reader[v] < 0) continue;
      crossing_[graph.op[v] + 1] += graph.bytes[v];
      crossing_[uses.last_reader[v] + 1] -= graph.bytes[v];
    }
    for (int i = 0; i < graph.ops; ++i) crossing_[i + 1] += crossing_[i];
  }

  std::vector<Part> Build(const std::vector<OpGroup>& nodes) {
    Add(0, graph_.ops, nodes);
    parts_.back().end_stage = graph_.stages;
    for (size_t p = parts_.size(); p-- > 0;) AssignToChildren(parts_[p]);
    return std::move(parts_);
  }

 private:
  int Add(int begin, int end, const std::vector<OpGroup>& inside) {
    std::vector<int> children;
    if (end - begin > kWhole) {
      for (const std::pair<int, int>& piece : Pieces(inside)) {
        children.push_back(AddPiece(inside, piece));
      }
    }
    if (children.size() == 1) return children[0];
    parts_.push_back({begin, end, 0, 0, std::move(children)});
    return static_cast<int>(parts_.size()) - 1;
  }

  int AddPiece(const std::vector<OpGroup>& inside, std::pair<int, int> piece) {
    const OpGroup& first = inside[piece.first];
    if (piece.second - piece.first == 1) {
      return Add(first.begin, first.end, first.inside);
    }
    parts_.push_back({first.begin, inside[piece.second - 1].end, 0, 0, {}});
    return static_cast<int>(parts_.size()) - 1;
  }

  // Runs of nodes that become one part: of few enough ops, and so that fewest
  // bytes cross the borders between them.
  std::vector<std::pair<int, int>> Pieces(
      const std::vector<OpGroup>& inside) const {
    const int nodes = static_cast<int>(inside.size());
    std::vector<double> least(nodes + 1,
                              std::numeric_limits<double>::infinity());
    std::vector<int> from(nodes + 1, kNone);
    least[0] = 0;
    for (int end = 1; end <= nodes; ++end) {
      for (int begin = end - 1; begin >= 0; --begin) {
        const int ops = inside[end - 1].end - inside[begin].begin;
        if (ops > kWhole && end - begin > 1) break;
        const double bytes = least[begin] + crossing_[inside[begin].begin] + 1;
        if (bytes >= least[end]) continue;
        least[end] = bytes;
        from[end] = begin;
      }
    }
    std::vector<std::pair<int, int>> pieces;
    for (int end = nodes; end > 0; end = from[end]) {
      pieces.push_back({from[end], end});
    }
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
  }

  void AssignToChildren(const Part& part) {
    std::vector<Part*> row;
    for (int child : part.children) row.push_back(&parts_[child]);
    AssignStages(homes_, part.first_stage, part.end_stage, row);
  }

  const Graph& graph_;
  const std::vector<int> homes_;
  std::vector<double> crossing_;  // bytes kept across the order before each op
  std::vector<Part> parts_;
};

}  // namespace

std::vector<Part> PartitionGraph(const Graph& graph, const Uses& uses) {
  return Tree(graph, uses).Build(GroupOps(graph, uses));
}

}  // namespace ebbtide
