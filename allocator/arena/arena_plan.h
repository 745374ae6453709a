// The plan of a step: the address of each request and its predecessors.
//
// A step is a list of requests in the order in which they come. Each request
// has a *slot*: the addresses that the plan gave it. Slots may share addresses
// where the plan has one over before the other is asked for; the one asked for
// last before a slot, at any of its addresses, precedes it. Steps follow each
// other, so the last slots of a step precede the first of the next. A request
// may be *unplaced*: it is expected, and has no slot. A slot may be
// *scattered*: it has addresses of its own above the plan's height, at which
// pages below that are mapped a second time. It shares the addresses of those
// pages.
#ifndef EBBTIDE_ALLOCATOR_ARENA_ARENA_PLAN_H_
#define EBBTIDE_ALLOCATOR_ARENA_ARENA_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "allocator/arena/page_system.h"
#include "planner/units.h"

namespace ebbtide {

inline constexpr int64_t kUnplaced = -1;

struct PlannedRequest {
  Bytes size{};        // as asked for, positive
  int stream = 0;      // number of the one it is asked for on
  int64_t offset = 0;  // offset of its slot, in whole kArenaGrain, or kUnplaced
  // As many as a scattered slot fills, ascending; its offset is not read.
  std::vector<int64_t> pages = {};
};

class ArenaPlan {
 public:
  struct Slot {
    Bytes size{};
    int stream = 0;
    int64_t offset = 0;  // kUnplaced: nothing below says anything
    int64_t end = 0;     // offset + size, rounded up to kArenaGrain
    // Half-open, in the pages of scattered slots; empty where it is none.
    int first_page = 0;
    int last_page = 0;
    bool is_scattered() const { return first_page < last_page; }
    // Half-open, in `preceding`.
    int first_preceding = 0;
    int last_preceding = 0;
    // A slot of another stream comes next at some of its addresses.
    bool is_awaited = false;
  };

  // `page`: bytes of the pages of scattered slots. O(n log n) for n requests
  // and pages.
  static ArenaPlan Make(absl::Span<const PlannedRequest> step,
                        Bytes page = Bytes{kArenaGrain});

  absl::Span<const Slot> slots() const { return slots_; }
  absl::Span<const int> PrecedingOf(const Slot& slot) const {
    return {preceding_.data() + slot.first_preceding,
            static_cast<size_t>(slot.last_preceding - slot.first_preceding)};
  }
  // Pages of a scattered slot; empty for others.
  absl::Span<const int64_t> PagesOf(const Slot& slot) const {
    return {pages_.data() + slot.first_page,
            static_cast<size_t>(slot.last_page - slot.first_page)};
  }
  // True if two slots have the same memory somewhere.
  bool Overlap(const Slot& a, const Slot& b) const;
  // Bytes of memory.
  Bytes height() const { return height_; }
  // Bytes of addresses: scattered slots lie behind the memory, from a whole
  // page on.
  Bytes addresses() const { return addresses_; }

 private:
  void Scatter(absl::Span<const PlannedRequest> step);
  template <typename Visit>
  void ForEachPiece(const Slot& slot, Visit visit) const;
  void FindPreceding();

  int64_t page_ = kArenaGrain;
  std::vector<Slot> slots_;
  std::vector<int> preceding_;
  std::vector<int64_t> pages_;  // pages of scattered slots
  Bytes height_{};
  Bytes addresses_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_ARENA_PLAN_H_
