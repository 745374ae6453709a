// Places buffers in pages of memory that may be mapped at several addresses.
//
// A buffer lies in one piece, at its hint or in the smallest hole that has room
// for it, where there is one when its lifetime begins. Else it is *scattered*:
// it lies in whole pages wherever they are free, which its owner maps one
// behind the other at addresses of their own. So buffers take hardly more pages
// than are in use at once, where one range of addresses (planner/place.h) has
// holes that are too small for them.
#ifndef EBBTIDE_PLANNER_PLACE_PAGES_H_
#define EBBTIDE_PLANNER_PLACE_PAGES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "planner/place_problem.h"
#include "planner/units.h"

namespace ebbtide {

struct PageSpot {
  Bytes offset{};              // where it lies in one piece
  std::vector<int64_t> pages;  // for a scattered buffer, ascending; else empty
};

// Spots by buffer, in `pages` pages; nullopt where that is too few for buffers
// in the order in which their lifetimes begin. Only buffers of a page and more
// are scattered.
//
// The problem is valid (CheckPlaceProblem) and has one stream and no fixed
// offsets; all alignments are one that divides sizes and the page. A buffer has
// no gap, or one, and is there with all others that have one. `hints`: an
// offset for each buffer. O(n (g + log n)) for n buffers, g of them with gaps.
std::optional<std::vector<PageSpot>> PlaceInPages(const PlaceProblem& problem,
                                                  absl::Span<const Bytes> hints,
                                                  Bytes page, int64_t pages);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLACE_PAGES_H_
