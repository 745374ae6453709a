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
  for (int v = 0; v < graph.values; ++v) {
    const bool held = graph.held[v] >= t;
    // What the script holds without autograd is inside `during`.
    if (held ? graph.saved[v] : instant.free[v]) {
      instant.fixed += graph.bytes[v];
    }
    instant.free[v] = instant.free[v] || held;
  }
  instant.fixed += Count(graph.profile->stages[t].during);
  return instant;
}

Instant AtInstant(const Graph& graph, int instant, int last) {
  return instant < graph.ops ? AtForward(graph, instant, last)
                             : AtStage(graph, instant - graph.ops, last);
}

}  // namespace ebbtide
