// The state of a plan at one instant, and its needs from there to a later
// stage: the data of every cut bound.
//
// Instants are counted as in planner/profile.h, forward ops, stages, the tail.
// Then come recomputations ("reruns"): if an op must be recomputed between two
// stages that follow each other, the last time that this happens is an instant
// too, with the op's inputs, outputs and scratch in memory. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_INSTANT_H_
#define EBBTIDE_PLANNER_INSTANT_H_

#include <vector>

#include "planner/graph.h"

namespace ebbtide {

struct Instant {
  // By value. Needed by a stage after the instant and up to `last`;
  std::vector<char> needed;
  // there at no price: made later, held by the script, or needed right now;
  std::vector<char> free;
  // never there at the instant in a way that lasts.
  std::vector<char> must_rebuild;
  // Bytes that are alive whatever is chosen.
  int64_t fixed = 0;
};

// While forward op `op` runs, with the needs of stages 0 to `last`.
Instant AtForward(const Graph& graph, int op, int last);
// While stage t runs, with the needs of stages t + 1 to `last`.
Instant AtStage(const Graph& graph, int t, int last);
// Instants as a profile counts them: forward ops, then stages.
Instant AtInstant(const Graph& graph, int instant, int last);

// While forward op `op` is recomputed before stage t, with the needs of stages
// t to `last`.
Instant AtRerun(const Graph& graph, int op, int t, int last);
// The number of that instant, and what it is the number of. In graphs of more
// than kMostOpsOfReruns ops or stages there are not enough numbers.
constexpr int kMostOpsOfReruns = 40000;
int RerunOf(const Graph& graph, int op, int t);
bool IsRerun(const Graph& graph, int instant);
struct Rerun {
  int op;
  int stage;
};
Rerun AsRerun(const Graph& graph, int instant);
// Ops that every plan within `budget` that offloads nothing recomputes between
// stages t and t + 1: their outputs are needed, directly or for such an op, and
// larger than the room that stage t leaves.
std::vector<int> ForcedReruns(const Graph& graph, int t, int64_t budget);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_INSTANT_H_
