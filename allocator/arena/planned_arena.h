// `PlannedArena` serves the requests of a step from the addresses that a plan
// chose, and never two live blocks from the same ones.
//
// Requests come as they come: the program is not bound to the plan. A request
// is taken for the next one of the plan if it has its size and stream, or for
// one of the few behind that, which are then *skipped*. It is served from its
// slot if nothing is live there. Anything else is left to others, and counted.
//
// That nothing is live at a slot is known without looking at all blocks. Each
// slot that comes up, served or not, is asked which of those that precede it
// are live; they are *late* from then on, until they are freed. So what is live
// at a slot's addresses is a preceding slot, or late. Late ones are looked
// through one by one, and where there are more than a few of them nothing is
// planned.
//
// Memory of one stream is used by another only behind what the first has queued
// (StreamOrder). Where every request is as planned, its calls are those that
// the plan's own changes of stream take, and with one stream there are none.
//
// Not thread-safe. Constant time, but for late blocks and skipped requests.
#ifndef EBBTIDE_ALLOCATOR_ARENA_PLANNED_ARENA_H_
#define EBBTIDE_ALLOCATOR_ARENA_PLANNED_ARENA_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "allocator/arena/arena_plan.h"
#include "allocator/arena/page_system.h"
#include "planner/units.h"

namespace ebbtide {

// The outcome of a request.
struct ArenaVerdict {
  enum class What {
    kPlanned,     // it has its slot
    kUnplaced,    // expected, and left to others by the plan
    kBeyond,      // all of the plan had come
    kUnexpected,  // it is not among the next of the plan
    kOccupied,    // its slot has something live, or unordered, or no memory
  };
  What what = What::kPlanned;
  int slot = 0;  // where the plan was; with kUnplaced, the request's own
};

struct ArenaCounts {
  int64_t planned = 0;  // requests served from their slots
  int64_t planned_bytes = 0;
  int64_t unexpected = 0;  // others that are not among the next of the plan
  int64_t occupied = 0;    // requests whose slot is kOccupied
  int64_t skipped = 0;     // requests of the plan that did not come

  int64_t mismatches() const { return unexpected + occupied + skipped; }
  ArenaCounts& operator+=(const ArenaCounts& other);
};

class PlannedArena {
 public:
  // Maps physical memory behind a slot of the plan. False where there is none.
  using Back = std::function<bool(const ArenaPlan::Slot& slot)>;

  // The plan's offsets count from `base`. `order` outlives this; it and `back`
  // may be nullptr where all requests are of one stream, and where all memory
  // is there.
  PlannedArena(ArenaPlan plan, char* base, StreamOrder* order,
               Back back = nullptr);
  PlannedArena(const PlannedArena&) = delete;
  PlannedArena& operator=(const PlannedArena&) = delete;

  // A step begins: what was planned of the last one and has not come is
  // skipped.
  void BeginStep();

  // A block of `size` bytes (positive) for work on the stream; nullptr where
  // the plan has no place for it now.
  void* Allocate(Bytes size, int stream, ArenaVerdict* verdict = nullptr);

  // The request with that verdict, the last one, has found no memory elsewhere,
  // either. The caller may retry once some has been freed, maybe at its slot.
  void ExpectAgain(const ArenaVerdict& verdict);

  // `others`: streams besides its own whose work so far uses the block. `ends`:
  // of work beside that which does. Returns its slot; nullptr, and nothing is
  // done, where no block of this arena begins there.
  const ArenaPlan::Slot* Free(void* block, absl::Span<const int> others = {},
                              absl::Span<const StreamMark> ends = {});

  // Ends of work beside that of streams that may still use addresses of the
  // plan. O(slots).
  std::vector<StreamMark> OutsideEnds() const;
  // They are over, or in others' hands.
  void ForgetOutsideEnds();

  // Live blocks by offset, ascending. O(slots).
  std::vector<const ArenaPlan::Slot*> Live() const;
  Bytes live() const { return Bytes{live_}; }
  // By slot: how many slots came up while its block was alive, its own
  // included, at most so far; 0 where none was freed.
  const std::vector<int64_t>& lives() const { return lives_; }
  const ArenaPlan& plan() const { return plan_; }
  const ArenaCounts& counts() const { return counts_; }

 private:
  // How a slot came up last.
  enum class Turn : char { kNever, kServed, kNotServed };
  struct State {
    Turn turn = Turn::kNever;
    bool is_live = false;
    bool is_late = false;
    bool is_shared = false;    // other streams used it, too
    bool has_outside = false;  // `ends` of work beside streams
    int64_t served_at = 0;
    // Ends of the work that used it last. A slot is served behind the ends of
    // all slots that had its addresses before, so no others are kept.
    absl::InlinedVector<StreamMark, 1> ends;
  };

  int Match(Bytes size, int stream) const;
  void SkipTo(int slot);
  bool ComeUp(int slot);
  bool MeetsLate(const ArenaPlan::Slot& slot) const;
  bool RunsBehindPreceding(const ArenaPlan::Slot& slot);
  bool RunsBehindAll(int stream);
  void NoteEnd(int slot, absl::Span<const int> others);
  void* Serve(int slot);
  int64_t Now() const { return steps_ * std::ssize(states_) + cursor_; }

  const ArenaPlan plan_;
  char* const base_;
  StreamOrder* const order_;
  const Back back_;
  // Slot by address, or -1; it has all addresses of the plan.
  absl::flat_hash_map<const void*, int> live_at_;
  int cursor_ = 0;
  int64_t steps_ = 0;
  int64_t live_ = 0;            // bytes
  std::vector<State> states_;   // by slot
  std::vector<int64_t> lives_;  // by slot
  std::vector<int> late_;       // slots
  ArenaCounts counts_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_PLANNED_ARENA_H_
