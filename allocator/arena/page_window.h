// `FindWindow` chooses where a block lies among free extents: where the fewest
// pages have to be mapped for it.
//
// Offsets and sizes in bytes, pages by their numbers. Plain functions of an
// arena's state (allocator/arena/page_arena.h), whose owner locks.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PAGE_WINDOW_H_
#define EBBTIDE_ALLOCATOR_ARENA_PAGE_WINDOW_H_

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

// `PageCensus` counts pages of any range, and says for which there are enough.
class PageCensus {
 public:
  // `room`: pages that may be mapped besides those that are free.
  PageCensus(absl::Span<const FreeExtents> zones, const PageMap& pages,
             int64_t room);

  // Pages of the range that are not mapped.
  int64_t Missing(int64_t begin, int64_t end) const {
    return pages_.Missing(begin, end);
  }
  // True if there are so many elsewhere: the range's own free pages are no use.
  bool Has(int64_t missing, int64_t begin, int64_t end) const;

 private:
  const PageMap& pages_;
  const int64_t room_;
  std::vector<int64_t> free_;  // ascending
};

struct PageWindow {
  int64_t begin = 0;
  int64_t missing = 0;  // pages
};

// The window of `size` bytes with the fewest pages missing, in the smallest
// hole of those. Extents that work of other streams uses count as free only if
// `of_any_stream`. nullopt where there are not enough pages for any.
// O(extents).
std::optional<PageWindow> FindWindow(const FreeExtents& extents,
                                     const PageCensus& census, int64_t size,
                                     int stream, bool of_any_stream);

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
