#include "planner/cut.h"

#include <algorithm>
#include <cmath>

#include "planner/instant.h"

namespace ebbtide {
namespace {

// The sum of all times is this many units of capacity: 1e-13 of it is lost to
// rounding down, and sums of capacities stay below 2^62.
constexpr double kScale = 17592186044416.0;  // 2^44
constexpr int64_t kEver = int64_t{1} << 60;  // more than any cut

}  // namespace

CutProblem::CutProblem(const Graph& graph, const std::vector<char>& replayable)
    : graph_(graph), replayable_(&replayable), time_(graph.time) {}

CutProblem CutProblem::At(const Graph& graph, int instant) {
  CutProblem problem(graph, graph.may_replay);
  const Instant at = AtInstant(graph, instant, graph.stages - 1);
  problem.Build(at.needed, at.free, at.must_rebuild);
  problem.fixed_ = at.fixed;
  return problem;
}

CutProblem CutProblem::ForPlan(const Graph& graph) {
  CutProblem problem(graph, graph.replayable);
  uint64_t state = 88172645463325252u;
  for (Time& time : problem.time_) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    time *= 1 + 1e-4 * static_cast<double>(state % 10000) / 10000;
  }
  std::vector<char> needed(graph.values, 0);
  std::vector<char> free(graph.values, 0);
  std::vector<char> must_rebuild(graph.values, 0);
  std::vector<int> last(graph.values, -1);
  for (int t = 0; t < graph.stages; ++t) {
    for (int v : graph.needs[t]) last[v] = t;
  }
  for (int v = 0; v < graph.values; ++v) {
    needed[v] = last[v] >= 0;
    free[v] = graph.held[v] >= 0 && graph.held[v] >= last[v];
    must_rebuild[v] = !graph.keepable[v];
  }
  problem.Build(needed, free, must_rebuild);
  return problem;
}

// Values and ops that the needed ones can make use of.
void CutProblem::Reach(const std::vector<char>& needed,
                       const std::vector<char>& free) {
  node_.assign(graph_.values, -1);
  op_node_.assign(graph_.ops, -1);
  int nodes = 0;
  const auto add = [&](int v) {
    if (free[v] || node_[v] >= 0) return;
    node_[v] = nodes++;
    reached_values_.push_back(v);
  };
  for (int v = 0; v < graph_.values; ++v) {
    if (needed[v]) add(v);
  }
  for (size_t k = 0; k < reached_values_.size(); ++k) {
    const int i = graph_.op[reached_values_[k]];
    if (!(*replayable_)[i] || op_node_[i] >= 0) continue;
    op_node_[i] = nodes++;
    reached_ops_.push_back(i);
    for (int v : graph_.inputs[i]) add(v);
  }
  source_ = nodes;
  sink_ = nodes + 1;
  flow_ = MaxFlow(nodes + 2);
}

void CutProblem::Build(const std::vector<char>& needed,
                       const std::vector<char>& free,
                       const std::vector<char>& must_rebuild) {
  Reach(needed, free);
  for (int v : reached_values_) {
    const int i = graph_.op[v];
    if (needed[v]) flow_.AddEdge(source_, node_[v], kEver);
    const int end = op_node_[i] >= 0 ? op_node_[i] : sink_;
    value_edge_.push_back(flow_.AddEdge(node_[v], end, kEver));
    priced_.push_back(op_node_[i] < 0 || !must_rebuild[v]);
  }
  for (int i : reached_ops_) {
    total_ += time_[i];
    op_edge_.push_back(flow_.AddEdge(op_node_[i], sink_, 0));
    for (int v : graph_.inputs[i]) {
      if (node_[v] >= 0) flow_.AddEdge(op_node_[i], node_[v], kEver);
    }
  }
}

void CutProblem::SetCapacities(double price, double time_scale) {
  // A capacity above this is never worth more; sums stay below 2^62.
  const double most = std::ldexp(1.0, 60) / (reached_values_.size() + 1);
  for (size_t k = 0; k < reached_values_.size(); ++k) {
    if (!priced_[k]) continue;
    const int v = reached_values_[k];
    const double bytes = static_cast<double>(graph_.bytes[v]);
    const double worth =
        price < 0 ? bytes : std::floor(price * bytes * time_scale);
    const bool too_large =
        graph_.bytes[v] > room_ && op_node_[graph_.op[v]] >= 0;
    flow_.SetCapacity(
        value_edge_[k],
        too_large ? kEver : static_cast<int64_t>(std::min(worth, most)));
  }
  for (size_t k = 0; k < reached_ops_.size(); ++k) {
    const double worth = std::floor(time_[reached_ops_[k]] * time_scale);
    flow_.SetCapacity(op_edge_[k], static_cast<int64_t>(worth));
  }
}

CutSolution CutProblem::Solve(double price) {
  const double time_scale = price < 0 || total_ <= 0 ? 0 : kScale / total_;
  SetCapacities(price, time_scale);
  CutSolution solution;
  const int64_t cut = flow_.Run(source_, sink_);
  solution.value = time_scale > 0 ? static_cast<double>(cut) / time_scale : 0;
  solution.keeps.assign(graph_.values, 0);
  for (int i : reached_ops_) {
    if (flow_.OnSourceSide(op_node_[i])) solution.cost += time_[i];
  }
  for (int v : reached_values_) {
    if (!flow_.OnSourceSide(node_[v])) continue;
    const int op = op_node_[graph_.op[v]];
    if (op >= 0 && flow_.OnSourceSide(op)) continue;
    solution.keeps[v] = 1;
    solution.kept += graph_.bytes[v];
  }
  return solution;
}

}  // namespace ebbtide
