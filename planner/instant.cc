#include "planner/instant.h"

namespace ebbtide {
namespace {

Instant Empty(const Graph& graph, int first, int last) {
  Instant instant;
  instant.needed.assign(graph.values, 0);
  instant.free.assign(graph.values, 0);
  instant.must_rebuild.assign(graph.values, 0);
  for (int t = first; t <= last; ++t) {
    for (int v : graph.needs[t]) instant.needed[v] = 1;
  }
  return instant;
}

// Free so far is what is read or made right now; what the script holds at stage
// t is free too. All of that has its bytes, but for what the script holds
// without autograd: that is inside the bytes of the stage.
void AddHeld(const Graph& graph, int t, Instant* instant) {
  for (int v = 0; v < graph.values; ++v) {
    const bool held = graph.held[v] >= t;
    if (held ? graph.saved[v] : instant->free[v]) {
      instant->fixed += graph.bytes[v];
    }
    instant->free[v] = instant->free[v] || held;
  }
}

}  // namespace

Instant AtForward(const Graph& graph, int op, int last) {
  Instant instant = Empty(graph, 0, last);
  for (int v = 0; v < graph.values; ++v) {
    const int released = graph.profile->values[v].released;
    const bool held = graph.op[v] <= op && released >= op;
    if (held && graph.saved[v]) instant.fixed += graph.bytes[v];
    // Values made later count for nothing.
    instant.free[v] =
        graph.op[v] > op || graph.held[v] >= 0 || (held && graph.keepable[v]);
    instant.must_rebuild[v] = !graph.keepable[v];
  }
  instant.fixed += graph.other[op];
  return instant;
}

Instant AtStage(const Graph& graph, int t, int last) {
  Instant instant = Empty(graph, t + 1, last);
  for (int v : graph.needs[t]) instant.free[v] = 1;
  AddHeld(graph, t, &instant);
  instant.fixed += Count(graph.profile->stages[t].during);
  return instant;
}

Instant AtInstant(const Graph& graph, int instant, int last) {
  return instant < graph.ops ? AtForward(graph, instant, last)
                             : AtStage(graph, instant - graph.ops, last);
}

Instant AtRerun(const Graph& graph, int op, int t, int last) {
  Instant instant = Empty(graph, t, last);
  for (int v : graph.inputs[op]) instant.free[v] = 1;
  for (int v : graph.outputs[op]) instant.free[v] = 1;
  AddHeld(graph, t, &instant);
  instant.fixed += Count(graph.profile->stages[t].before) + graph.scratch[op];
  return instant;
}

int RerunOf(const Graph& graph, int op, int t) {
  return graph.ops + graph.stages + 1 + t * graph.ops + op;
}

bool IsRerun(const Graph& graph, int instant) {
  return instant > graph.ops + graph.stages;
}

Rerun AsRerun(const Graph& graph, int instant) {
  const int k = instant - graph.ops - graph.stages - 1;
  return {.op = k % graph.ops, .stage = k / graph.ops};
}

std::vector<int> ForcedReruns(const Graph& graph, int t, int64_t budget) {
  const Instant instant = AtStage(graph, t, t + 1);
  const int64_t room = budget - instant.fixed;
  std::vector<char> forced(graph.ops, 0);
  std::vector<int> ops;
  const auto need = [&](int v) {
    const int i = graph.op[v];
    if (instant.free[v] || graph.bytes[v] <= room) return;
    if (forced[i] || !graph.may_replay[i]) return;
    forced[i] = 1;
    ops.push_back(i);
  };
  for (int v : graph.needs[t + 1]) need(v);
  for (size_t k = 0; k < ops.size(); ++k) {
    for (int v : graph.inputs[ops[k]]) need(v);
  }
  return ops;
}

}  // namespace ebbtide
