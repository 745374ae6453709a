// Places each buffer of a program in one arena, so that buffers that are there
// at once do not overlap and the arena is as small as can be (dynamic storage
// allocation, NP-complete).
//
// First a portfolio of greedy orders (planner/place_greedy.h): on traces of
// training steps it ends within 1 % of the lower bound. The rest is left to
// rounds in which those that stick out are placed earlier, and to an anytime
// branch and bound (planner/place_search.h), within a number of nodes. All of
// it is deterministic: no clock and no random number is asked.
#ifndef EBBTIDE_PLANNER_PLACE_H_
#define EBBTIDE_PLANNER_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "planner/place_bound.h"
#include "planner/place_problem.h"
#include "planner/units.h"

namespace ebbtide {

struct PlaceOptions {
  // Nodes of the search; visits that look at much count for more. 0: the greedy
  // orders only. Above kMostSearched buffers there is no search behind the
  // rounds.
  int64_t nodes = 900'000;
  // The height at which to stop looking for a lower one.
  Bytes enough{};
};

inline constexpr int kMostSearched = 2000;

struct Placed {
  Placement placement;
  PlaceBound bound;
  // No placement is lower: the bound, or more where the search has shown it.
  Bytes least{};
  // The order of the portfolio, "squeaky wheel" or "search".
  std::string by;
  int64_t nodes = 0;  // that the search took
};

// InvalidArgument as CheckPlaceProblem, and where two fixed buffers lie over
// each other. 20,000 buffers take some 0.6 s and 100,000 some 3 s on a core
// of 2.8 GHz, more where most of them are there at once: a further order is
// tried while those before took few comparisons. The rounds take at most 0.5 s.
absl::StatusOr<Placed> Place(const PlaceProblem& problem,
                             const PlaceOptions& options = {});

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_H_
