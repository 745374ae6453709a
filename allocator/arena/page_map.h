// `PageMap` is a range of reserved addresses and the pages of physical memory
// that are mapped into it. A page that is unmapped is *spare* until it is
// mapped elsewhere or released. An *alias* is an address at which a page is
// mapped that is mapped elsewhere, too; it goes when the page is unmapped.
//
// Pages are numbered by their addresses. Not thread-safe.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PAGE_MAP_H_
#define EBBTIDE_ALLOCATOR_ARENA_PAGE_MAP_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/arena/page_system.h"
#include "planner/units.h"

namespace ebbtide {

// Half-open, in pages.
struct PageRange {
  int64_t first = 0;
  int64_t last = 0;
  bool Has(int64_t page) const { return page >= first && page < last; }
};

// Pages of these numbers, joined where they are neighbours, in order.
std::vector<PageRange> RunsOf(std::vector<int64_t> pages);

class PageMap {
 public:
  // `system` outlives this.
  explicit PageMap(PageSystem* system)
      : system_(*system), page_(Count(system->page())) {}
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // Reserves addresses of at least so many bytes; once.
  absl::Status Reserve(Bytes size);

  char* base() const { return base_; }
  int64_t page() const { return page_; }
  // Bytes of all addresses.
  int64_t size() const { return count_ * page_; }
  // Above it no page is mapped.
  int64_t top() const { return static_cast<int64_t>(pages_.size()); }
  int64_t mapped() const { return mapped_; }
  int64_t moves() const { return moves_; }  // pages that became spare
  // The number of pages that may be mapped besides those that are.
  int64_t Room() const { return system_.Room(); }
  // Numbers of the pages that [begin, end), in bytes, touches.
  PageRange RangeOf(int64_t begin, int64_t end) const {
    return {.first = begin / page_, .last = (end + page_ - 1) / page_};
  }
  int64_t spare() const { return static_cast<int64_t>(spare_.size()); }
  bool IsMapped(int64_t index) const {
    return index < top() && pages_[index].is_mapped;
  }
  // The number of the page that is mapped at `index`: its own unless that is an
  // alias.
  int64_t PageAt(int64_t index) const {
    return pages_[index].alias_of < 0 ? index : pages_[index].alias_of;
  }
  // Mapped here alone.
  bool IsOwn(int64_t index) const {
    return IsMapped(index) && pages_[index].alias_of < 0 &&
           (aliases_.empty() || !aliases_.contains(index));
  }
  // Pieces of the range in which all pages are mapped, or none is, in order.
  std::vector<PageRange> Runs(PageRange range, bool is_mapped) const;
  // Pages of [begin, end), in bytes, that are not mapped.
  int64_t Missing(int64_t begin, int64_t end) const;

  // Creates spare pages until there are `count`, within the system's room.
  // False where there are fewer then.
  bool Create(int64_t count);
  // Unmaps the pages, which become spare. False, and they stay, on failure.
  bool Unmap(PageRange pages);
  // Maps spare pages where [begin, end) has none; there are enough. On failure
  // some of them may be mapped.
  absl::Status MapSpare(int64_t begin, int64_t end);
  void ReleaseSpare();

  // Makes the numbers from `first` on aliases of these pages, which are mapped;
  // the numbers may be that already, each of its page.
  absl::Status MapAliases(int64_t first, absl::Span<const int64_t> pages);
  // The alias takes the place of its page, whose own address is unmapped with
  // its other aliases. They stay on failure.
  void TakePlace(int64_t alias);
  // Aliases in the range go. Some stay on failure.
  void UnmapAliases(PageRange range);

 private:
  struct Page {
    uint64_t handle = 0;
    bool is_mapped = false;
    int64_t alias_of = -1;  // the page; -1: none
  };

  bool UnmapAt(int64_t index);
  bool UnmapAlias(int64_t alias);
  bool UnmapAliasesOf(PageRange pages);
  void DropTop();

  PageSystem& system_;
  const int64_t page_;
  char* base_ = nullptr;
  int64_t count_ = 0;
  int64_t mapped_ = 0;
  int64_t moves_ = 0;
  std::vector<Page> pages_;
  std::vector<uint64_t> spare_;
  absl::flat_hash_map<int64_t, std::vector<int64_t>> aliases_;  // by page
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PAGE_MAP_H_
