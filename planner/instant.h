// What a plan has at one instant, and what it needs from there to a later
// stage: the data of every cut bound. Private to the planner.
#ifndef EBBTIDE_PLANNER_INSTANT_H_
#define EBBTIDE_PLANNER_INSTANT_H_

#include <vector>

#include "planner/graph.h"

namespace ebbtide {

struct Instant {
  // Of values. Needed by a stage after the instant and up to `last`;
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

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_INSTANT_H_
