// `PageArena` is the memory of a device below a budget: blocks at addresses of
// one reserved range, in physical pages that are mapped where they are needed.
// A page at which no block lies is mapped elsewhere when memory is short: free
// pages move, bytes do not. So what fits into the pages that may be had is
// served, but for the rests of pages that blocks share with nothing else.
//
// Requests are served by demand: from the lowest hole that is mapped and that
// work of the same stream used last; else where the fewest pages are missing.
// Small blocks, large ones that outlive steps and all others have addresses
// apart, so that few blocks that stay keep pages of blocks that go. A block may
// outlive its step if its caller says so and one of the same size has; one of a
// backward pass does if that of its turn has, among those of its size.
// While a plan is served (allocator/arena/planned_arena.h), it has addresses of
// its own, whose pages are mapped when its slots are first asked for, and what
// it does not expect is served by demand. Its scattered slots have pages that
// are mapped at two addresses. When the plan ends its blocks stay where they
// are, and each page is mapped once again.
//
// Work of one stream uses memory of another only behind what the other has
// queued. A page moves when the work that used it is done. Pages go first of
// which that is so; only where they are too few the calling thread waits, for
// the pages that were freed first. In a step in which every request is as
// planned no page moves.
//
//   PageArena arena(&system, &order);
//   if (arena.Reserve(Bytes{int64_t{1} << 40}).ok()) {
//     void* const block = arena.Allocate(Bytes{3 << 20}, /*stream=*/0);
//     if (block != nullptr) arena.Free(block);
//   }
//
// Thread-safe: one lock, which is held while `system` and `order` are called.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PAGE_ARENA_H_
#define EBBTIDE_ALLOCATOR_ARENA_PAGE_ARENA_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/arena/arena_plan.h"
#include "allocator/arena/free_memory.h"
#include "allocator/arena/page_map.h"
#include "allocator/arena/page_system.h"
#include "allocator/arena/page_window.h"
#include "allocator/arena/plan_pages.h"
#include "allocator/arena/planned_arena.h"
#include "planner/units.h"

namespace ebbtide {

class PageArena {
 public:
  struct Facts {
    Bytes mapped{};   // pages, of the plan and others
    Bytes room{};     // bytes of pages that may still be mapped
    Bytes free{};     // bytes of unused pages, without the plan's
    Bytes planned{};  // pages of the plan's addresses
    Bytes alive{};    // blocks, served by demand or planned
    Bytes planned_alive{};
    int64_t moves = 0;      // pages that were unmapped
    ArenaCounts counts;     // sums over all plans so far
    int64_t elsewhere = 0;  // requests that they had no place for
    int64_t elsewhere_bytes = 0;
  };

  static constexpr Bytes kSmallBelow{1 << 20};

  // Both outlive this. Blocks below `small` are small ones.
  PageArena(PageSystem* system, StreamOrder* order, Bytes small = kSmallBelow)
      : order_(*order), small_(Count(small)), free_(system, order) {}
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;

  // Reserves addresses of so many bytes; once, before all else.
  absl::Status Reserve(Bytes size);

  // `By` is the part of a step that asks for a block. Blocks that outlive steps
  // lie apart, those of kOutside (parameters, optimizer state) apart from those
  // of kBackward (gradients).
  enum class By { kForward, kBackward, kOutside };

  // A block of at least `size` bytes (positive) for work on the stream; nullptr
  // where there are not enough pages for it. The caller may retry once memory
  // has been freed. `verdict` is the plan's.
  void* Allocate(Bytes size, int stream, ArenaVerdict* verdict = nullptr,
                 By by = By::kForward);
  // Allocates by demand, without a look at the plan, also among blocks of other
  // kinds and in parts of their pages (PageJoint).
  void* AllocateAnywhere(Bytes size, int stream, By by = By::kForward);
  // `others`: streams besides its own whose work so far uses the block. `ends`:
  // of work beside that which does, such as a copy. False, and nothing is done,
  // where no block begins there.
  bool Free(void* block, absl::Span<const int> others = {},
            absl::Span<const StreamMark> ends = {});

  // True if a request by demand would find room.
  bool FindsRoom(Bytes size, int stream);
  // Releases pages at which no block lies: the plan's only if `of_plan`, until
  // `wanted` bytes are. Returns how many bytes were.
  Bytes GiveBack(Bytes wanted, bool of_plan);

  // From now on requests are served as planned. There is no plan. False where
  // there are no addresses for it.
  bool BeginPlan(ArenaPlan plan);
  // A step begins: what is alive outlives the last one.
  void BeginStep();
  void EndPlan();
  // PlannedArena::lives() of the plan that is served; empty where none is.
  std::vector<int64_t> PlanLives() const;

  // True if the address is one of the reserved ones.
  bool Owns(const void* address) const {
    return address >= begin() && address < end();
  }
  Bytes page() const { return Bytes{free_.pages().page()}; }
  // The reserved addresses.
  const void* begin() const { return free_.pages().base(); }
  const void* end() const {
    return free_.pages().base() + free_.pages().size();
  }
  Bytes mapped() const;
  Facts facts() const;
  struct Range {
    char* begin = nullptr;
    char* end = nullptr;
  };
  // Calls `visit` with the addresses that are mapped, in pieces that touch
  // nothing else, ascending, while the lock is held.
  void WithMapped(absl::FunctionRef<void(std::vector<Range>)> visit) const;
  // The mapped addresses with each page once: at an alias that `live` touches,
  // else at its own address. Pages that `live` touches at both are at both.
  std::vector<Range> MappedOnce(absl::Span<const Range> live) const;

 private:
  friend class ArenaCheck;  // for the tests
  using Zone = FreeMemory::Zone;

  struct Live {
    int64_t end = 0;
    int stream = 0;
    int64_t turn = -1;  // in its backward pass, among those of its size
  };

  // Parts of other pages that a block has, which are mapped a second time, at
  // the first and last of `addresses`.
  struct Joined {
    PageRange addresses;
    PageJoint joint;
  };

  // All with the lock held:
  Zone ZoneFor(int64_t size, By by) const;
  void* AllocateByPlan(Bytes size, int stream, Zone zone,
                       ArenaVerdict* verdict);
  void* AllocateAmongOthers(int64_t size, int stream, Zone own);
  void NoteTurn(const void* block, int64_t size, By by);
  void EndPass();
  void* AllocateByDemand(int64_t size, int stream, Zone zone);
  void* AllocateJoined(int64_t size, int stream);
  bool MapJoint(const PageJoint& joint, PageRange at, int stream);
  void* Book(int64_t begin, int64_t end, int stream);
  int64_t IdleOfPlan() const;
  std::optional<PageWindow> ChooseWindow(int64_t size, int stream,
                                         Zone zone) const;
  bool Supply(int64_t count, PageRange but);

  StreamOrder& order_;
  const int64_t small_;
  mutable std::mutex mutex_;
  FreeMemory free_;
  absl::flat_hash_set<int64_t> lasting_;  // sizes of what outlived a step
  absl::flat_hash_map<int64_t, int64_t> turns_;  // by size, in this pass
  // Sizes and turns of what outlived the last backward pass; empty where that
  // is not known.
  absl::flat_hash_set<std::pair<int64_t, int64_t>> gradients_;
  absl::flat_hash_map<int64_t, Live> live_;      // served by demand, by offset
  int64_t alive_ = 0;                            // bytes of those
  absl::flat_hash_map<int64_t, Joined> joined_;  // those of them that are
  std::unique_ptr<PlanPages> plan_;
  ArenaCounts ended_;  // sums over plans that have ended
  int64_t elsewhere_ = 0;
  int64_t elsewhere_bytes_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PAGE_ARENA_H_
