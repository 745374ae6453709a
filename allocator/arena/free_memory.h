// `FreeMemory` is what no block of an arena has: addresses, the mapped ones
// with the streams whose work may still use them, and the pages there, which
// are unmapped where they are wanted elsewhere.
//
// Offsets and sizes in bytes, pages by their numbers. A part of the page arena
// (allocator/arena/page_arena.h), which locks.
#ifndef EBBTIDE_ALLOCATOR_ARENA_FREE_MEMORY_H_
#define EBBTIDE_ALLOCATOR_ARENA_FREE_MEMORY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/arena/free_extents.h"
#include "allocator/arena/page_ages.h"
#include "allocator/arena/page_map.h"
#include "allocator/arena/page_system.h"
#include "allocator/arena/page_window.h"
#include "planner/units.h"

namespace ebbtide {

class FreeMemory {
 public:
  // Addresses of small blocks, of those that may outlive steps, by who asks for
  // them, and of others.
  enum Zone { kSmall, kLasting, kGradients, kPassing, kZones };

  // Both outlive this.
  FreeMemory(PageSystem* system, StreamOrder* order)
      : system_(*system), order_(*order), pages_(system), ages_(order) {}

  // Reserves addresses of so many bytes; once, before all else.
  absl::Status Reserve(Bytes size);

  PageMap& pages() { return pages_; }
  const PageMap& pages() const { return pages_; }
  PageAges& ages() { return ages_; }
  FreeExtents& In(Zone zone) { return zones_[zone]; }
  absl::Span<const FreeExtents> zones() const { return zones_; }

  // [begin, end) is free and mapped, and work may use it.
  void Add(int64_t begin, int64_t end, StreamUses uses) {
    if (begin < end) At(begin).Add(begin, {end, true, std::move(uses)});
  }
  // Work of the stream runs behind what uses [begin, end), which is free and
  // mapped. False, and it stays free, where that cannot be ordered.
  bool Take(int64_t begin, int64_t end, int stream);

  // Addresses of so many pages at which nothing is.
  std::optional<PageRange> TakeAddresses(int64_t count);
  // Gives some of them back, with what is mapped there. Those of pages that
  // have other addresses come back when nothing is mapped there any more.
  void GiveAddresses(int64_t begin, int64_t end, const StreamUses& uses);

  // Pages at which no block lies.
  std::vector<FreePage> Pages() const { return FreePages(zones_, pages_, {}); }
  // Makes `count` pages spare, which are none of `but`. False where there are
  // fewer then.
  bool Supply(int64_t count, PageRange but) {
    return pages_.Create(count) || TakePages(count, but);
  }
  // Makes free pages spare until `count` pages are, none of `but`. False where
  // there are fewer then.
  bool TakePages(int64_t count, PageRange but);
  // Maps spare pages where [begin, end), which is free, has none. They are free
  // ones of the stream.
  bool Map(int64_t begin, int64_t end, int stream);
  bool WaitFor(const StreamMark& end) {
    return order_.IsOver(end) || order_.Wait(end).ok();
  }

 private:
  friend class ArenaCheck;  // for the tests
  FreeExtents& At(int64_t offset);
  void TakeRun(PageRange run);

  PageSystem& system_;
  StreamOrder& order_;
  PageMap pages_;
  PageAges ages_;  // not of a plan's pages while all of them are mapped
  std::array<FreeExtents, kZones> zones_;
  std::array<int64_t, kZones> begins_{};  // begins of the zones
  std::vector<int64_t> left_;  // pages that still have other addresses
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_FREE_MEMORY_H_
