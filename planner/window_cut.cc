#include "planner/window_cut.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ebbtide {
namespace {

// The sum of all times is this many units of capacity. Capacities are rounded
// down, which loses at most one unit each: the cut stays a lower bound.
constexpr double kUnits = 17592186044416.0;  // 2^44
constexpr int64_t kEver = int64_t{1} << 60;  // more than any cut

}  // namespace

WindowCut::WindowCut(const Graph& graph, Instant instant,
                     const std::vector<int>& wanted,
                     const std::vector<char>& replayable,
                     std::vector<Time> time)
    : graph_(graph), instant_(std::move(instant)), time_(std::move(time)) {
  Reach(wanted, replayable);
  Time total = 0;
  for (int i : ops_) total += time_[i];
  scale_ = total > 0 ? kUnits / total : 0;
  AddEdges();
  Reset();
}

void WindowCut::Reset() {
  needed_ = instant_.needed;
  state_.assign(graph_.values, State::kOpen);
  for (int v : values_) {
    if (instant_.must_rebuild[v] && CanRebuild(v)) Drop(v);
  }
}

// Values and ops that the needed and the wanted ones can make use of.
void WindowCut::Reach(const std::vector<int>& wanted,
                      const std::vector<char>& replayable) {
  node_.assign(graph_.values, -1);
  op_node_.assign(graph_.ops, -1);
  int nodes = 0;
  const auto add = [&](int v) {
    if (instant_.free[v] || node_[v] >= 0) return;
    node_[v] = nodes++;
    values_.push_back(v);
  };
  for (int v = 0; v < graph_.values; ++v) {
    if (instant_.needed[v]) add(v);
  }
  for (int v : wanted) add(v);
  for (size_t k = 0; k < values_.size(); ++k) {
    const int i = graph_.op[values_[k]];
    if (!replayable[i] || op_node_[i] >= 0) continue;
    op_node_[i] = nodes++;
    ops_.push_back(i);
    for (int v : graph_.inputs[i]) add(v);
  }
  source_ = nodes;
  sink_ = nodes + 1;
  flow_ = MaxFlow(nodes + 2);
}

void WindowCut::AddEdges() {
  for (int v : values_) {
    want_edge_.push_back(flow_.AddEdge(source_, node_[v], 0));
    keep_edge_.push_back(flow_.AddEdge(
        node_[v], CanRebuild(v) ? op_node_[graph_.op[v]] : sink_, 0));
  }
  for (int i : ops_) {
    op_edge_.push_back(flow_.AddEdge(op_node_[i], sink_, 0));
    for (int v : graph_.inputs[i]) {
      if (node_[v] >= 0) flow_.AddEdge(op_node_[i], node_[v], kEver);
    }
  }
}

// A capacity is never worth more than all times together, unless a value can
// only be kept; sums stay below 2^62.
int64_t WindowCut::Capacity(double worth) const {
  const double most = std::ldexp(1.0, 60) / (values_.size() + 1);
  return static_cast<int64_t>(std::min(std::floor(worth * scale_), most));
}

double WindowCut::Solve(const Prices& prices) {
  for (size_t k = 0; k < values_.size(); ++k) {
    const int v = values_[k];
    double keep = prices.per_byte * static_cast<double>(graph_.bytes[v]);
    if (prices.surcharge != nullptr) keep += (*prices.surcharge)[v];
    int64_t capacity = Capacity(keep);
    if (state_[v] == State::kKept) capacity = 0;
    if (state_[v] == State::kDropped) capacity = kEver;
    flow_.SetCapacity(keep_edge_[k], capacity);
    const double reward = prices.reward == nullptr ? 0 : (*prices.reward)[v];
    flow_.SetCapacity(want_edge_[k], needed_[v] ? kEver : Capacity(reward));
  }
  for (size_t k = 0; k < ops_.size(); ++k) {
    const double worth = std::floor(time_[ops_[k]] * scale_);
    flow_.SetCapacity(op_edge_[k], static_cast<int64_t>(worth));
  }
  const int64_t cut = flow_.Run(source_, sink_);
  return scale_ > 0 ? static_cast<double>(cut) / scale_ : 0;
}

void WindowCut::SolveFewest() {
  const int64_t most = (int64_t{1} << 60) / (values_.size() + 1);
  for (size_t k = 0; k < values_.size(); ++k) {
    const int v = values_[k];
    int64_t capacity = std::min(graph_.bytes[v], most);
    if (state_[v] == State::kKept) capacity = 0;
    if (state_[v] == State::kDropped) capacity = kEver;
    flow_.SetCapacity(keep_edge_[k], capacity);
    flow_.SetCapacity(want_edge_[k], needed_[v] ? kEver : 0);
  }
  for (int edge : op_edge_) flow_.SetCapacity(edge, 0);
  flow_.Run(source_, sink_);
}

Time WindowCut::RebuildTime() const {
  Time sum = 0;
  for (int i : ops_) {
    if (flow_.OnSourceSide(op_node_[i])) sum += time_[i];
  }
  return sum;
}

}  // namespace ebbtide
