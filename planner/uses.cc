#include "planner/uses.h"

#include <algorithm>

namespace ebbtide {
namespace {

std::vector<char> KeptForOthers(const Graph& graph, double little) {
  double all_time = 0;
  double all_bytes = 1;
  for (Time time : graph.time) all_time += time;
  for (int64_t bytes : graph.bytes) all_bytes += static_cast<double>(bytes);
  std::vector<char> kept = graph.keepable;
  // Time to make each value if only kept ones are there.
  std::vector<double> time(graph.values, 0);
  std::vector<double> bytes(graph.values, 0);
  for (int i = 0; i < graph.ops; ++i) {
    double op_time = graph.time[i];
    double op_bytes = 0;
    for (int u : graph.inputs[i]) {
      op_time += kept[u] ? 0 : time[u];
      op_bytes += kept[u] ? static_cast<double>(graph.bytes[u]) : bytes[u];
    }
    for (int v : graph.outputs[i]) {
      time[v] = op_time;
      bytes[v] = op_bytes;
      const double own = static_cast<double>(graph.bytes[v]);
      if (graph.replayable[i] && op_bytes <= own &&
          op_time < little * own * all_time / all_bytes) {
        kept[v] = 0;
      }
    }
  }
  return kept;
}

// Where among the stages what was made before `op` begins.
int StageBorder(const std::vector<int>& homes, int first, int end, int op) {
  int best = first;
  int wrong = 0;
  int least = 0;
  for (int t = first; t < end; ++t) {
    if (homes[t] < 0) continue;
    wrong += homes[t] < op ? 1 : -1;
    if (wrong >= least) continue;
    least = wrong;
    best = t + 1;
  }
  return best;
}

}  // namespace

Uses::Uses(const Graph& graph, double little)
    : kept(KeptForOthers(graph, little)),
      last_reader(graph.values, -1),
      first_stage(graph.values, graph.stages),
      last_stage(graph.values, -1) {
  for (int i = 0; i < graph.ops; ++i) {
    for (int v : graph.inputs[i]) last_reader[v] = i;
  }
  for (int t = 0; t < graph.stages; ++t) {
    for (int v : graph.needs[t]) {
      first_stage[v] = std::min(first_stage[v], t);
      last_stage[v] = t;
    }
  }
  for (int i = graph.ops - 1; i >= 0; --i) {
    for (int v : graph.outputs[i]) {
      if (kept[v]) continue;
      for (int u : graph.inputs[i]) {
        last_reader[u] = std::max(last_reader[u], last_reader[v]);
        first_stage[u] = std::min(first_stage[u], first_stage[v]);
        last_stage[u] = std::max(last_stage[u], last_stage[v]);
      }
    }
  }
}

std::vector<int> HomesOf(const Graph& graph) {
  std::vector<int> homes(graph.stages, -1);
  for (int t = 0; t < graph.stages; ++t) {
    for (int v : graph.needs[t]) homes[t] = std::max(homes[t], graph.op[v]);
  }
  return homes;
}

void AssignStages(const std::vector<int>& homes, int first, int end,
                  absl::Span<Part* const> row) {
  int end_stage = end;
  for (size_t k = 0; k < row.size(); ++k) {
    row[k]->end_stage = end_stage;
    row[k]->first_stage = k + 1 < row.size()
                              ? StageBorder(homes, first, end, row[k]->end)
                              : first;
    end_stage = row[k]->first_stage;
  }
}

}  // namespace ebbtide
