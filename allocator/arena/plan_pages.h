// `PlanPages` are the addresses of a plan that a page arena serves, and the
// pages there. A page is mapped when one of its slots is first asked for, and
// unmapped if none of the plan's blocks lies there when memory is short. Slots
// that are scattered have pages that are mapped at two addresses.
//
// A part of the page arena (allocator/arena/page_arena.h), which locks.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PLAN_PAGES_H_
#define EBBTIDE_ALLOCATOR_ARENA_PLAN_PAGES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "allocator/arena/arena_plan.h"
#include "allocator/arena/free_memory.h"
#include "allocator/arena/page_map.h"
#include "allocator/arena/page_window.h"
#include "allocator/arena/planned_arena.h"

namespace ebbtide {

class PlanPages {
 public:
  // Both outlive this. nullptr where there are no addresses for the plan.
  static std::unique_ptr<PlanPages> Make(ArenaPlan plan, FreeMemory* free,
                                         StreamOrder* order);

  PlannedArena& blocks() { return blocks_; }
  // Pages of its memory that are mapped.
  int64_t mapped() const { return memory_.last - memory_.first - missing_; }

  // As PlannedArena::Free.
  bool Free(void* block, absl::Span<const int> others,
            absl::Span<const StreamMark> ends);

  // Pages of its memory at which no block lies.
  std::vector<FreePage> Idle() const;
  // Makes some of them spare until `count` pages are. False where there are
  // fewer then.
  bool TakeIdle(int64_t count);

  struct Block {
    int64_t begin = 0;
    int64_t end = 0;
    int stream = 0;
  };
  // Gives all addresses back but those of live blocks, which it returns, and
  // maps each page once again. The last call.
  std::vector<Block> End();

 private:
  friend class ArenaCheck;  // for the tests
  PlanPages(ArenaPlan plan, PageRange at, FreeMemory* free, StreamOrder* order);

  bool Back(const ArenaPlan::Slot& slot);
  bool Map(PageRange wanted);
  int64_t base() const { return memory_.first * free_.pages().page(); }
  PageRange AddressesOf(const ArenaPlan::Slot& slot) const;
  template <typename Visit>
  void ForEachPage(const ArenaPlan::Slot& slot, Visit visit) const;
  void UnmapScattered();

  FreeMemory& free_;
  StreamOrder& order_;
  const PageRange memory_;
  const PageRange aliases_;  // memory of its scattered slots, behind its own
  int64_t missing_;          // pages of its memory that are not mapped
  const ArenaPlan::Slot* backed_ = nullptr;  // for which pages are mapped now
  PlannedArena blocks_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PLAN_PAGES_H_
