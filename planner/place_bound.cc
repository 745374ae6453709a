#include "planner/place_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "planner/max_flow.h"

namespace ebbtide {
namespace {

struct Piece {
  int buffer;
  Lifetime live;
};

std::vector<Piece> AllPieces(const PlaceProblem& problem) {
  std::vector<Piece> pieces;
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    for (Lifetime& live : Pieces(problem.buffers[id])) {
      pieces.push_back({id, std::move(live)});
    }
  }
  return pieces;
}

// The most bytes that are live at once by the clock of one stream.
PlaceBound MostOnStream(const PlaceProblem& problem, int stream) {
  PlaceBound bound;
  int64_t instant = 0;
  for (const LiveStep& step : LiveBytes(problem, stream)) {
    if (step.live <= bound.bytes) continue;
    bound.bytes = step.live;
    instant = step.begin;
  }
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    for (const Lifetime& live : Pieces(problem.buffers[id])) {
      if (live.begin[stream] > instant || instant >= live.end[stream]) continue;
      bound.live.push_back(id);
      break;
    }
  }
  bound.instant = instant;
  return bound;
}

// Pieces that follow each other are joined by unlimited edges from the first's
// exit to the second's entry: what flows is weight that a chain carries on.
// "Over before" is transitive, so no path needs more than one edge.
PlaceBound HeaviestAntichain(const PlaceProblem& problem,
                             const std::vector<Piece>& pieces) {
  const int n = static_cast<int>(pieces.size());
  const int source = 2 * n;
  const int sink = 2 * n + 1;
  MaxFlow flow(2 * n + 2);
  Bytes sum{};
  for (int i = 0; i < n; ++i) {
    const Bytes size = problem.buffers[pieces[i].buffer].size;
    sum += size;
    flow.AddEdge(source, i, Count(size));
    flow.AddEdge(n + i, sink, Count(size));
    for (int j = 0; j < n; ++j) {
      if (i != j && IsOver(pieces[i].live.end, pieces[j].live.begin)) {
        flow.AddEdge(i, n + j, std::numeric_limits<int64_t>::max() / 4);
      }
    }
  }
  PlaceBound bound;
  bound.bytes = sum - Bytes{flow.Run(source, sink)};
  for (int i = 0; i < n; ++i) {
    if (flow.OnSourceSide(i) && !flow.OnSourceSide(n + i)) {
      bound.live.push_back(pieces[i].buffer);
    }
  }
  return bound;
}

PlaceBound WithoutOffsets(const PlaceProblem& problem) {
  const int streams = static_cast<int>(problem.buffers[0].live.begin.size());
  if (streams == 1) return MostOnStream(problem, 0);
  const std::vector<Piece> pieces = AllPieces(problem);
  if (pieces.size() <= kMostAntichain) {
    return HeaviestAntichain(problem, pieces);
  }
  PlaceBound best;
  for (int stream = 0; stream < streams; ++stream) {
    PlaceBound bound = MostOnStream(problem, stream);
    if (bound.bytes > best.bytes) best = std::move(bound);
  }
  best.instant.reset();
  best.heaviest = false;
  return best;
}

}  // namespace

std::vector<LiveStep> LiveBytes(const PlaceProblem& problem, int stream) {
  std::vector<std::pair<int64_t, Bytes>> changes;
  for (const Buffer& buffer : problem.buffers) {
    for (const Lifetime& live : Pieces(buffer)) {
      changes.push_back({live.begin[stream], buffer.size});
      changes.push_back({live.end[stream], Bytes{} - buffer.size});
    }
  }
  std::sort(changes.begin(), changes.end());
  std::vector<LiveStep> steps;
  Bytes live{};
  for (const auto& [at, change] : changes) {
    live += change;
    if (steps.empty() || steps.back().begin != at) steps.push_back({at, {}});
    steps.back().live = live;
  }
  return steps;
}

PlaceBound LowerBound(const PlaceProblem& problem) {
  if (problem.buffers.empty()) return {};
  PlaceBound bound = WithoutOffsets(problem);
  for (int id = 0; id < static_cast<int>(problem.buffers.size()); ++id) {
    const Buffer& b = problem.buffers[id];
    if (!b.offset || *b.offset + b.size <= bound.bytes) continue;
    bound = {.bytes = *b.offset + b.size, .live = {id}};
    if (b.live.begin.size() == 1) bound.instant = Pieces(b)[0].begin[0];
  }
  return bound;
}

}  // namespace ebbtide
