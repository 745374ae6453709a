// A height that no placement is below, and what proves it.
#ifndef EBBTIDE_PLANNER_PLACE_BOUND_H_
#define EBBTIDE_PLANNER_PLACE_BOUND_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "planner/place_problem.h"
#include "planner/units.h"

namespace ebbtide {

struct PlaceBound {
  Bytes bytes{};
  // The witness: these buffers may be there at once, each two of them, and are
  // as many bytes; or it is one buffer whose fixed offset and size are that.
  std::vector<int> live;
  // Where all of them are there: with one stream only.
  std::optional<int64_t> instant;
  // With several streams: whether no set of buffers that meet is heavier. With
  // one stream it always is the heaviest.
  bool heaviest = true;
};

// With one stream: the most live bytes at an instant, by a sweep,
// O(n log n). With several: the heaviest antichain of pieces in the order "over
// before", as the sum of sizes less a maximum flow (Dilworth's theorem with
// weights), for up to kMostAntichain pieces; above that the most bytes that
// one stream's clock alone shows to be live at once. `problem` is valid.
PlaceBound LowerBound(const PlaceProblem& problem);

inline constexpr int kMostAntichain = 2000;

// Live bytes of a valid problem with one stream, as a staircase: from each
// instant to the next one's. The last is 0.
struct LiveStep {
  int64_t begin = 0;
  Bytes live{};
};
std::vector<LiveStep> LiveBytes(const PlaceProblem& problem, int stream = 0);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_BOUND_H_
