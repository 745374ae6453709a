// Serves requests from the addresses that a plan chose, and never two live
// blocks from the same ones.
//
// Requests come as they come: the program is not bound to the plan. A request
// is taken for the next one of the plan if it has its size and stream, or for
// one of the few behind that, which are then *skipped*. It is served from its
// slot if nothing is live there. Anything else is served from a *fallback*
// behind the planned addresses, and counted: nothing is ever given twice.
//
// That nothing is live at a slot is known without looking at all blocks. Each
// slot that comes up, served or not, is asked which of those that precede it
// are live; they are *late* from then on, until they are freed. So what is live
// at a slot's addresses is a preceding slot, or late. Late ones are looked
// through one by one, and where there are more than a few of them nothing is
// planned.
//
// Who has nowhere else to go is served from whatever is free just now, in the
// way of the plan: such a block is a *stray*. What comes up at its addresses
// goes elsewhere in turn.
//
// Memory of one stream is used by another only behind what the first has queued
// (ArenaOrder); fallback blocks stay with their stream. Where every request
// is as planned, the calls of ArenaOrder are those that the plan's own changes
// of stream take, and with one stream there are none. A block that further
// streams have used is told of when it is freed.
//
// What a plan leaves to others may get a run for itself later, where it then
// lies in each step.
//
// Thread-safe: one lock, taken once per call. Constant time, but for late
// blocks and skipped requests; freeing allocates nothing.
#ifndef EBBTIDE_ALLOCATOR_PLANNED_ARENA_H_
#define EBBTIDE_ALLOCATOR_PLANNED_ARENA_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "allocator/arena_plan.h"
#include "allocator/arena_space.h"
#include "allocator/spin_lock.h"
#include "allocator/tlsf.h"
#include "planner/units.h"

namespace ebbtide {

// Orders streams, by their numbers. Called under the arena's lock.
class ArenaOrder {
 public:
  virtual ~ArenaOrder() = default;
  // Remembers what is queued on the streams now as the end of the slot's use.
  virtual absl::Status NoteEnd(int slot, absl::Span<const int> streams) = 0;
  // What is queued on the stream from now on runs behind that end.
  virtual absl::Status RunBehind(int slot, int stream) = 0;
  // The same behind what is queued on any stream now.
  virtual absl::Status RunBehindAll(int stream) = 0;
};

// What became of a request.
struct ArenaVerdict {
  enum class What {
    kPlanned,     // it has its slot
    kUnplaced,    // expected, and left to others by the plan
    kBeyond,      // all of the plan had come
    kUnexpected,  // it is not among the next of the plan
    kOccupied,    // its slot has something live, or unordered
  };
  What what = What::kPlanned;
  int slot = 0;  // where the plan was; of kUnplaced: its own
};

struct ArenaCounts {
  int64_t planned = 0;  // requests served from their slots
  int64_t planned_bytes = 0;
  int64_t fallback = 0;
  int64_t strays = 0;
  int64_t refused = 0;     // what Allocate had no room for
  int64_t unplaced = 0;    // expected, and left to others by the plan
  int64_t beyond = 0;      // that came when all of the plan had come
  int64_t unexpected = 0;  // others that are not among the next of the plan
  int64_t occupied = 0;    // whose slot has something live, or unordered
  int64_t skipped = 0;     // of the plan, that did not come
  int64_t elsewhere_bytes = 0;  // of the fallback and of strays
  int64_t fallback_bytes = 0;   // live now
  int64_t fallback_peak = 0;
};

class PlannedArena {
 public:
  // The plan lies in the runs of `space`, none of its slots over a wall. The
  // last run has `fallback` bytes behind the plan. `order` outlives this;
  // nullptr where all requests are of one stream.
  PlannedArena(ArenaPlan plan, ArenaSpace space, Bytes fallback,
               ArenaOrder* order);
  PlannedArena(const PlannedArena&) = delete;
  PlannedArena& operator=(const PlannedArena&) = delete;

  // The phase begins: what was planned of those before it and has not come is
  // skipped. A phase that is not behind the current one begins another step.
  void BeginPhase(int phase);

  // A block of `size` bytes (positive) for work on the stream; nullptr where
  // there is no room for it, or it is unplaced.
  void* Allocate(Bytes size, int stream, ArenaVerdict* verdict = nullptr);

  // The same wherever there is room, without a look at the plan: a stray. The
  // highest place, because fewest slots are there. O(sites of the plan).
  void* AllocateAnywhere(Bytes size, int stream);

  // The request for the unplaced slot that has just been refused is served from
  // the run, which is the slot's from now on. nullptr, and nothing is done,
  // where nothing is planned any more or another run was faster.
  void* ServeFrom(const ArenaRun& run, int slot);

  // `others`: streams besides its own whose work so far uses the block. False,
  // and nothing is done, where no block of this arena begins there.
  bool Free(void* block, absl::Span<const int> others = {});

  // From now on nothing is planned, nor in the fallback: all requests but
  // strays are refused.
  void Leave();
  // Whether nothing is live. Then nothing is served ever after.
  bool Close();
  // Of the memory that this lies in those runs in which nothing is live:
  // nothing is served from them ever after, and they are not told of again.
  // None where it has not left. O(sites of the plan).
  std::vector<ArenaRun> CloseIdle(absl::Span<const ArenaRun> memory);

  ArenaCounts counts() const;

 private:
  // How a slot came up last.
  enum class Turn : char { kNever, kServed, kNotServed };

  enum class Mode { kPlanned, kLeaving, kClosed };

  int Match(Bytes size, int stream) const;
  void SkipTo(int slot);
  bool ComeUp(int slot);
  void MarkLate(int slot);
  bool MeetsLate(const ArenaPlan::Slot& slot) const;
  bool RunsBehindPreceding(const ArenaPlan::Slot& slot);
  bool FreeSlot(const void* block, absl::Span<const int> others);
  void NoteEnd(int slot, absl::Span<const int> others);
  bool FreeStray(const void* block);
  std::vector<const char*> Live() const;
  bool FreeFallback(int64_t offset, absl::Span<const int> others);
  int64_t HighestHole(int64_t size) const;
  void* Serve(int slot);
  void* FallBack(Bytes size, int stream);
  bool Grow(Bytes size, int stream);

  // Behind the plan: where the fallback begins, and how many bytes it has.
  const int64_t planned_end_;
  char* const fallback_;
  const int64_t fallback_size_;
  ArenaOrder* const order_;

  // Everything below, and what the private functions do, is under it.
  mutable SpinLock lock_;
  ArenaPlan plan_;
  ArenaSpace space_;
  // Where no stray lies: the walls, and the fallback; ascending.
  struct Obstacle {
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::vector<Obstacle> obstacles_;
  int64_t top_;                              // of what there is for strays
  absl::flat_hash_set<const char*> closed_;  // where such runs begin
  std::vector<char*> addresses_;             // by site
  absl::flat_hash_map<const void*, int> site_at_;
  Mode mode_ = Mode::kPlanned;
  int cursor_ = 0;
  int phase_ = 0;
  int64_t live_ = 0;             // blocks
  std::vector<Turn> turns_;      // by slot
  std::vector<char> is_live_;    // by slot
  std::vector<int> live_at_;     // slot by site, or -1
  std::vector<char> is_shared_;  // by slot: other streams used it, too
  std::vector<char> is_late_;    // by slot
  std::vector<int> late_;        // those
  std::vector<Tlsf> fallbacks_;  // by stream
  // Pieces of the fallback that have been given to streams, and to which;
  // counted from its begin, as what lies in it is.
  int64_t pieces_end_ = 0;
  std::vector<int> stream_of_piece_;
  absl::btree_map<int64_t, int64_t> strays_;  // ends by offset, of live ones
  // Who used which addresses is not known before so many steps begin.
  int unknown_steps_ = 0;
  ArenaCounts counts_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_PLANNED_ARENA_H_
