// Places the blocks of a step that repeats, each at the same addresses in every
// step.
#ifndef EBBTIDE_PLANNER_PLACE_STEP_H_
#define EBBTIDE_PLANNER_PLACE_STEP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/place_pages.h"
#include "planner/units.h"

namespace ebbtide {

// A block of a step, in the order in which they are asked for.
struct StepBlock {
  Bytes size{};
  // How many are asked for while it is alive, itself included.
  int64_t life = 0;
};

struct PlacedStep {
  // By block; nullopt: it may live longer than a step, and has no place.
  std::vector<std::optional<PageSpot>> spots;
  Bytes bound{};  // the most that is alive at once of what is placed
};

// Blocks that are alive when a step begins lie among the others, at both ends
// of each step. Offsets and sizes are in whole `grain`. Blocks are scattered
// over pages of so many bytes (planner/place_pages.h) where that takes fewer of
// them; none is where `page` is 0. The errors of Place; Internal where its
// placement is found to be wrong.
absl::StatusOr<PlacedStep> PlaceStep(absl::Span<const StepBlock> step,
                                     Bytes grain, Bytes page);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_STEP_H_
