#include "planner/reruns.h"

#include <algorithm>
#include <utility>

namespace ebbtide {

std::vector<int> MissingOps(const Graph& graph, int target,
                            absl::FunctionRef<bool(int)> is_away) {
  std::vector<int> ops;
  std::vector<int> todo = {target};
  std::vector<char> seen(graph.ops);
  while (!todo.empty()) {
    const int op = graph.op[todo.back()];
    todo.pop_back();
    if (std::exchange(seen[op], 1)) continue;
    ops.push_back(op);
    for (int input : graph.inputs[op]) {
      if (is_away(input)) todo.push_back(input);
    }
  }
  std::sort(ops.begin(), ops.end());
  return ops;
}

std::vector<int> LastNeeds(const Graph& graph) {
  std::vector<int> last(graph.values, -1);
  for (int t = 0; t < graph.stages; ++t) {
    for (int v : graph.needs[t]) last[v] = t;
  }
  return last;
}

std::vector<int> LastUses(const Graph& graph) {
  std::vector<int> last = LastNeeds(graph);
  for (int i = graph.ops - 1; i >= 0; --i) {
    if (!graph.replayable[i]) continue;
    int made = -1;
    for (int v : graph.outputs[i]) made = std::max(made, last[v]);
    for (int v : graph.inputs[i]) last[v] = std::max(last[v], made);
  }
  return last;
}

bool MustGo(const Graph& graph, int value, int instant) {
  const int held =
      std::max(graph.profile->values[value].released, graph.ops - 1);
  return graph.saved[value] && !graph.keepable[value] && held == instant;
}

}  // namespace ebbtide
