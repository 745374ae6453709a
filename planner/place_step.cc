#include "planner/place_step.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/place.h"
#include "planner/place_problem.h"
#include "planner/place_validate.h"

namespace ebbtide {
namespace {

Lifetime Live(int64_t begin, int64_t end) {
  return {.begin = {begin}, .end = {end}};
}

// The instants of a step are its requests. What is alive when the next one
// begins is there at both ends of each, and not in between.
Buffer BufferOf(absl::Span<const StepBlock> step, size_t i, Bytes grain) {
  const auto count = static_cast<int64_t>(step.size());
  const auto begin = static_cast<int64_t>(i);
  const int64_t end = begin + step[i].life;
  Buffer buffer = {.size = Bytes{AlignUp(Count(step[i].size), Count(grain))},
                   .live = Live(begin, end),
                   .alignment = grain};
  if (end <= count) return buffer;
  buffer.live = Live(0, count);
  if (end - count < begin) buffer.gaps = {Live(end - count, begin)};
  return buffer;
}

// In fewer pages than the placement takes, where that can be.
std::vector<PageSpot> SpotsOf(const PlaceProblem& problem, const Placed& placed,
                              Bytes page) {
  constexpr int64_t kApart = 256;  // part by which attempts differ
  if (page > Bytes{0}) {
    const int64_t most = AlignUp(Count(placed.placement.height), Count(page));
    int64_t pages = (Count(placed.bound.bytes) - 1) / Count(page) + 1;
    for (; pages * Count(page) < most; pages += pages / kApart + 1) {
      auto spots = PlaceInPages(problem, placed.placement.offsets, page, pages);
      if (spots) return *std::move(spots);
    }
  }
  std::vector<PageSpot> spots;
  for (const Bytes offset : placed.placement.offsets) {
    spots.push_back({.offset = offset});
  }
  return spots;
}

}  // namespace

absl::StatusOr<PlacedStep> PlaceStep(absl::Span<const StepBlock> step,
                                     Bytes grain, Bytes page) {
  PlaceProblem problem;
  std::vector<size_t> placed;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i].life > std::ssize(step)) continue;
    placed.push_back(i);
    problem.buffers.push_back(BufferOf(step, i, grain));
  }
  // Little search, for which the step waits: what it leaves is scattered.
  auto result = Place(problem, {.nodes = 2000});
  if (!result.ok()) return result.status();
  const absl::Status valid = ValidatePlacement(problem, result->placement);
  if (!valid.ok()) {
    return absl::InternalError(
        absl::StrCat("a placement is wrong: ", valid.message()));
  }
  PlacedStep layout = {.bound = result->bound.bytes};
  layout.spots.resize(step.size());
  std::vector<PageSpot> spots = SpotsOf(problem, *result, page);
  for (size_t k = 0; k < placed.size(); ++k) {
    layout.spots[placed[k]] = std::move(spots[k]);
  }
  return layout;
}

}  // namespace ebbtide
