#include "planner/graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

std::vector<int> Unique(std::vector<int> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

void CompileValues(const Profile& profile, Graph* graph) {
  std::vector<std::vector<int>> released(graph->ops + graph->stages + 1);
  for (int v = 0; v < graph->values; ++v) {
    const Value& value = profile.values[v];
    graph->bytes.push_back(Count(value.bytes));
    graph->op.push_back(value.op);
    graph->saved.push_back(value.saved);
    graph->keepable.push_back(value.saved && value.retainable);
    const int held = std::max(-1, value.released - graph->ops);
    graph->held.push_back(held);
    graph->movable.push_back(value.saved && value.retainable && value.movable &&
                             held < 0);
    released[value.released].push_back(v);
  }
  for (int i = 0; i < graph->ops; ++i) {
    graph->released_forward.Add(released[i]);
  }
  for (int t = 0; t < graph->stages; ++t) {
    graph->released_stage.Add(released[graph->ops + t]);
  }
}

// Ops are in topological order, so one pass finds for every input whether it
// can be obtained.
void CompileOps(const Profile& profile, bool allow_recompute, Graph* graph) {
  std::vector<char> obtainable(graph->values, 0);
  std::vector<char> may_be_there(graph->values, 0);
  for (int i = 0; i < graph->ops; ++i) {
    const Op& op = profile.ops[i];
    graph->inputs.Add(Unique(op.inputs));
    graph->outputs.Add(op.outputs);
    graph->time.push_back(op.time);
    graph->other.push_back(Count(op.other));
    graph->scratch.push_back(Count(op.scratch));
    bool replayable = allow_recompute && op.replayable;
    bool may_replay = replayable;
    for (int v : op.inputs) {
      replayable = replayable && obtainable[v];
      may_replay = may_replay && may_be_there[v];
    }
    graph->replayable.push_back(replayable);
    graph->may_replay.push_back(may_replay);
    for (int v : op.outputs) {
      obtainable[v] = replayable || graph->keepable[v];
      may_be_there[v] = may_replay || graph->keepable[v] || graph->held[v] >= 0;
    }
  }
  for (int v = 0; v < graph->values; ++v) {
    graph->pinned.push_back(graph->keepable[v] &&
                            !graph->replayable[graph->op[v]]);
  }
}

}  // namespace

absl::StatusOr<Graph> CompileGraph(const Profile& profile,
                                   bool allow_recompute) {
  Graph graph;
  graph.profile = &profile;
  graph.ops = profile.ops.size();
  graph.stages = profile.stages.size();
  graph.values = profile.values.size();
  CompileValues(profile, &graph);
  CompileOps(profile, allow_recompute, &graph);
  std::vector<std::vector<int>> needed_by(graph.values);
  for (int t = 0; t < graph.stages; ++t) {
    const std::vector<int>& needs = profile.stages[t].needs;
    graph.needs.Add(Unique(needs));
    for (int v : graph.needs[t]) needed_by[v].push_back(t);
    for (size_t k = 0; k < needs.size(); ++k) {
      const int v = needs[k];
      if (graph.keepable[v] || graph.held[v] >= t ||
          graph.replayable[graph.op[v]]) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("stages[", t, "].needs[", k, "]: value ", v,
                       " can be neither kept until then nor rebuilt"));
    }
  }
  for (const std::vector<int>& stages : needed_by) graph.needed_by.Add(stages);
  return graph;
}

}  // namespace ebbtide
