// `FindWindow` chooses where a block lies among free extents: where the fewest
// pages have to be mapped for it.
//
// Offsets and sizes in bytes, pages by their numbers. Plain functions of an
// arena's state (allocator/arena/page_arena.h), whose owner locks.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PAGE_WINDOW_H_
#define EBBTIDE_ALLOCATOR_ARENA_PAGE_WINDOW_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "allocator/arena/free_extents.h"
#include "allocator/arena/page_map.h"

namespace ebbtide {

struct FreePage {
  int64_t neighbours = 0;  // free pages that it touches, itself included
  int64_t index = 0;
};

// Mapped pages at which no block lies, but those of `but`.
std::vector<FreePage> FreePages(absl::Span<const FreeExtents> zones,
                                const PageMap& pages, PageRange but);

struct PageWindow {
  int64_t missing = 0;  // pages
  int64_t hole = 0;     // bytes, of free extents that touch around it
  int64_t begin = 0;
  auto operator<=>(const PageWindow&) const = default;
};

// The window of `size` bytes of a zone with the fewest pages missing, in the
// smallest hole of those. Pages are created before work of the stream is made
// to wait for that of others, which used the window; they are moved only where
// that is not enough, either. `idle`: pages that may be moved besides free
// ones. nullopt where there are not enough pages for any. O(extents).
std::optional<PageWindow> FindWindow(absl::Span<const FreeExtents> zones,
                                     int zone, const PageMap& pages,
                                     int64_t size, int stream, int64_t idle);

// `PageJoint` is where a block fits that begins in the end of one page and ends
// in the beginning of another, with whole pages between. Other blocks have the
// rests of the two.
struct PageJoint {
  int64_t head = 0;  // bytes up to the end of a page, where `head_size` > 0
  int64_t head_size = 0;
  int64_t pages = 0;
  int64_t tail = 0;  // bytes from the beginning of a page
  int64_t tail_size = 0;
};

// The joint for `size` bytes with the fewest whole pages, at most `available`.
// O(extents log extents).
std::optional<PageJoint> FindJoint(absl::Span<const FreeExtents> zones,
                                   const PageMap& pages, int64_t size,
                                   int64_t available);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PAGE_WINDOW_H_
