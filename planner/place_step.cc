#include "planner/place_step.h"

#include <algorithm>
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

// The instants of a step are its requests. A block alive when the next step
// begins exists at both ends of each, and not in between.
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

// A part of the bound that is not worth a search.
constexpr int64_t kWorthASearch = 512;
// Nodes of the search for so many buffers: it takes a fifth of a second at
// most, for which the step waits.
int64_t NodesFor(int64_t buffers) {
  return std::min(200 * buffers, 15'000'000 / (buffers + 1) + 1);
}
constexpr int64_t kApart = 256;  // part by which numbers of pages differ

struct Spots {
  std::vector<PageSpot> spots;
  int64_t height = 0;
  bool is_in_pages = false;
  Bytes bound{};
};

// Where a placement has them, or in fewer pages (0: none) where that can be.
absl::StatusOr<Spots> FindSpots(const PlaceProblem& problem, int64_t page,
                                const PlaceOptions& options) {
  const auto placed = Place(problem, options);
  if (!placed.ok()) return placed.status();
  const Placement& placement = placed->placement;
  const absl::Status valid = ValidatePlacement(problem, placement);
  if (!valid.ok()) {
    return absl::InternalError(
        absl::StrCat("a placement is wrong: ", valid.message()));
  }
  Spots found = {.height = Count(placement.height),
                 .bound = placed->bound.bytes};
  if (page > 0) {
    const int64_t most = AlignUp(found.height, page);
    int64_t pages = (Count(found.bound) - 1) / page + 1;
    for (; pages * page < most; pages += pages / kApart + 1) {
      auto spots = PlaceInPages(problem, placement.offsets, Bytes{page}, pages);
      if (!spots) continue;
      return Spots{.spots = *std::move(spots),
                   .height = pages * page,
                   .is_in_pages = true,
                   .bound = found.bound};
    }
  }
  for (const Bytes offset : placement.offsets) {
    found.spots.push_back({.offset = offset});
  }
  return found;
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
  auto found = FindSpots(problem, Count(page), {.nodes = 0});
  if (!found.ok()) return found.status();
  const Bytes enough =
      found->bound + Bytes{Count(found->bound) / kWorthASearch};
  const bool is_least =
      found->is_in_pages && Bytes{found->height} < found->bound + page;
  if (!is_least && Bytes{found->height} > enough) {
    auto searched = FindSpots(
        problem, Count(page),
        {.nodes = NodesFor(std::ssize(problem.buffers)), .enough = enough});
    if (!searched.ok()) return searched.status();
    if (searched->height < found->height) found = std::move(searched);
  }
  PlacedStep layout = {.bound = found->bound};
  layout.spots.resize(step.size());
  for (size_t k = 0; k < placed.size(); ++k) {
    layout.spots[placed[k]] = std::move(found->spots[k]);
  }
  return layout;
}

}  // namespace ebbtide
