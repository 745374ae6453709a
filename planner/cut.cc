#include "planner/cut.h"

#include <algorithm>

#include "planner/instant.h"

namespace ebbtide {

CutProblem CutProblem::At(const Graph& graph, int instant) {
  return {graph,
          WindowCut(graph, AtInstant(graph, instant, graph.stages - 1), {})};
}

CutProblem CutProblem::ForPlan(const Graph& graph) {
  std::vector<Time> times = graph.time;
  uint64_t state = 88172645463325252u;
  for (Time& time : times) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    time *= 1 + 1e-4 * static_cast<double>(state % 10000) / 10000;
  }
  std::vector<int> last(graph.values, -1);
  for (int t = 0; t < graph.stages; ++t) {
    for (int v : graph.needs[t]) last[v] = t;
  }
  Instant loss;
  for (int v = 0; v < graph.values; ++v) {
    loss.needed.push_back(last[v] >= 0);
    loss.free.push_back(graph.held[v] >= 0 && graph.held[v] >= last[v]);
    loss.must_rebuild.push_back(!graph.keepable[v]);
  }
  return {graph, WindowCut(graph, std::move(loss), {}, graph.replayable,
                           std::move(times))};
}

void CutProblem::SetRoom(int64_t room) {
  for (int v : window_.values()) {
    if (window_.IsOpen(v) && graph_.bytes[v] > room) window_.Drop(v);
  }
}

CutSolution CutProblem::Solve(double price) {
  CutSolution solution;
  if (price < 0) {
    window_.SolveFewest();
  } else {
    solution.value = window_.Solve({.per_byte = price});
  }
  solution.cost = window_.RebuildTime();
  solution.keeps.assign(graph_.values, 0);
  for (int v : window_.values()) {
    if (!window_.Keeps(v)) continue;
    solution.keeps[v] = 1;
    solution.kept += graph_.bytes[v];
  }
  return solution;
}

}  // namespace ebbtide
