#include "planner/uses.h"

#include <algorithm>

namespace ebbtide {

Uses::Uses(const Graph& graph)
    : last_reader(graph.values, -1),
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
      if (graph.keepable[v]) continue;
      for (int u : graph.inputs[i]) {
        last_reader[u] = std::max(last_reader[u], last_reader[v]);
        first_stage[u] = std::min(first_stage[u], first_stage[v]);
        last_stage[u] = std::max(last_stage[u], last_stage[v]);
      }
    }
  }
}

}  // namespace ebbtide
