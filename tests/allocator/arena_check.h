// Invariants of arenas, from their private state: nothing is lost or there
// twice, and counters and indices say what the tables have.
#ifndef EBBTIDE_TESTS_ALLOCATOR_ARENA_CHECK_H_
#define EBBTIDE_TESTS_ALLOCATOR_ARENA_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "allocator/arena.h"
#include "allocator/arena/page_arena.h"

namespace ebbtide {

class ArenaCheck {
 public:
  // Blocks and extents tile the addresses, pages are mapped below blocks and
  // where extents say so. O(blocks + pages).
  static bool Holds(const PageArena& arena) {
    const std::lock_guard lock(arena.mutex_);
    Parts parts;
    if (!AddFree(arena.free_, &parts)) return false;
    if (arena.plan_ != nullptr && !AddPlan(*arena.plan_, &parts)) return false;
    const PageMap& pages = arena.free_.pages();
    int64_t alive = 0;
    for (const auto& [begin, live] : arena.live_) {
      parts.emplace_back(begin, live.end);
      alive += live.end - begin;
      if (pages.Missing(begin, live.end) > 0) return false;
    }
    for (const auto& [begin, joined] : arena.joined_) {
      const auto& [at, joint] = joined;
      if (joint.head_size > 0) {
        parts.emplace_back(joint.head, joint.head + joint.head_size);
        parts.emplace_back(at.first * pages.page(), begin);
      }
      if (joint.tail_size > 0) {
        parts.emplace_back(joint.tail, joint.tail + joint.tail_size);
        parts.emplace_back(arena.live_.at(begin).end, at.last * pages.page());
      }
    }
    std::sort(parts.begin(), parts.end());
    int64_t end = 0;
    for (const auto& [begin, next] : parts) {
      if (begin != end) return false;
      end = next;
    }
    return end == pages.size() && alive == arena.alive_;
  }

  // Extents are apart, neighbours differ, and the index has each.
  static bool Holds(const FreeExtents& extents) {
    int64_t marked = 0;
    size_t simple = 0;
    const FreeExtent* below = nullptr;
    for (const auto& [begin, extent] : extents.extents_) {
      if (extent.end <= begin || begin % kArenaGrain != 0) return false;
      if (below != nullptr && below->end > begin) return false;
      if (below != nullptr && below->end == begin &&
          FreeExtents::AreAlike(*below, extent)) {
        return false;
      }
      if (FreeExtents::IsSimple(extent)) {
        ++simple;
        const auto& index = *extents.index_[extent.uses[0].stream];
        const int64_t size = extent.end - begin;
        const int number = FreeExtents::ClassOf(size);
        const auto& all = index.classes[number];
        if (!std::binary_search(all.begin(), all.end(),
                                std::pair(begin.at, size))) {
          return false;
        }
        if ((index.has[number / 64] >> number % 64 & 1) == 0) return false;
      } else if (extent.is_mapped) {
        ++marked;
      }
      below = &extent;
    }
    size_t listed = 0;
    for (const auto& index : extents.index_) {
      for (const auto& size_class : index->classes) listed += size_class.size();
    }
    return marked == extents.marked_ && listed == simple;
  }

  // Recomputes all counters from the tables. O(blocks).
  static bool Holds(const Arena& arena) {
    std::lock_guard lock(arena.mutex_);
    ArenaBytes sum;
    Arena::BlockSet all = arena.retained_;
    for (const auto& block : arena.retained_) sum.retained += block.size;
    for (const auto& [address, live] : arena.live_) {
      const auto& block = live.node.value();
      if (block.address != address || live.asked > block.size) return false;
      sum.live += block.size;
      sum.slack += block.size - live.asked;
      all.insert(block);
    }
    // No two blocks share a page.
    std::set<std::pair<char*, Bytes>> by_address;
    for (const auto& block : all) {
      by_address.insert({block.address, block.size});
    }
    const char* end = nullptr;
    for (const auto& [address, size] : by_address) {
      if (address < end || Count(size) % kPageSize != 0) return false;
      end = address + Count(size);
    }
    const ArenaBytes& stats = arena.stats_;
    return sum.live == stats.live && sum.slack == stats.slack &&
           sum.retained == stats.retained &&
           stats.mapped == sum.live + sum.retained;
  }

 private:
  using Parts = std::vector<std::pair<int64_t, int64_t>>;

  static bool AddFree(const FreeMemory& free, Parts* parts) {
    const PageMap& pages = free.pages();
    if (pages.spare() > 0) return false;
    for (const FreeExtents& zone : free.zones()) {
      if (!Holds(zone)) return false;
      for (const auto& [begin, extent] : zone.all()) {
        parts->emplace_back(begin, extent.end);
        const PageRange range = pages.RangeOf(begin, extent.end);
        const int64_t all = range.last - range.first;
        const int64_t expected = extent.is_mapped ? 0 : all;
        if (pages.Missing(begin, extent.end) != expected) return false;
      }
    }
    for (const int64_t page : free.left_) {
      parts->emplace_back(page * pages.page(), (page + 1) * pages.page());
    }
    return true;
  }

  static bool AddPlan(const PlanPages& plan, Parts* parts) {
    const PageMap& pages = plan.free_.pages();
    const int64_t base = plan.base();
    const int64_t end = plan.aliases_.last * pages.page();
    if (end > base) parts->emplace_back(base, end);
    for (const ArenaPlan::Slot* slot : plan.blocks_.Live()) {
      if (pages.Missing(base + slot->offset, base + slot->end) > 0) {
        return false;
      }
    }
    return plan.missing_ ==
           pages.Missing(base, plan.memory_.last * pages.page());
  }
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_ARENA_CHECK_H_
