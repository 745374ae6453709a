// What a CUDA device's caching allocator holds, as its own trace tells it:
// blocks alive by kind, in a ledger, and segments, the pieces it has from the
// device.
//
// Reserved are the bytes of segments; idle are those of them that emptying the
// cache would give back: segments of the common pool without a block, or, where
// segments are expandable, whatever is not alive (an upper bound there, for
// pages that are partly used stay).
//
// It knows where the blocks lie (allocator/cached_segments.h), until
// ForgetPlaces and except in expandable segments and what settings for rounding
// add to blocks: there a hole may be told of that the allocator does not have.
//
// Thread-safe. Called under the native allocator's lock: its own is the
// innermost, and it calls nobody.
#ifndef EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_
#define EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "allocator/cached_segments.h"
#include "allocator/ledger.h"
#include "planner/units.h"
#include "profiler/kind.h"

namespace ebbtide {

class DeviceBooks {
 public:
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  void OnAllocate(const void* block, Bytes size, Kind kind);
  // The program has freed the block, which other streams may still use.
  void OnLeave(const void* block);
  // Anybody may have the block. Blocks it was not told of are ignored: they are
  // older than the books.
  void OnFree(const void* block);

  // `what` has no blocks.
  void OnSegment(const void* segment, CachedSegment what);
  void OnSegmentFreed(const void* segment);
  // From now on that block, of a request of so many bytes, serves every
  // request, and what lies in it is told of here; until it is removed. Returns
  // how many bytes it has.
  Bytes AddArena(const void* block, Bytes size);
  void RemoveArena(const void* address);
  // From now on blocks have no places, which is half of what they cost: for a
  // device without a budget, of which nobody asks for room. If somebody does,
  // all segments are taken for expandable ones, and Largest has what was asked
  // for. Not with an arena.
  void ForgetPlaces();
  // Parts of expandable segments.
  void OnMapped(Bytes size);
  void OnUnmapped(Bytes size);

  // Whether the block is in a segment of a private pool.
  bool IsPrivate(const void* block) const;

  // As the functions of that name, within the ledger's budget and with what is
  // reserved now. Where segments are expandable there is room if the segment
  // fits beside what is alive, and no set is known.
  bool FindsRoom(CacheRequest request) const;
  std::vector<int> CheapestToClear(
      CacheRequest request, absl::Span<const Clearable> clearables) const;

  // The largest blocks that are alive, largest first; not those in expandable
  // segments.
  struct Alive {
    const void* block = nullptr;
    Bytes size{};
  };
  std::vector<Alive> Largest(size_t count) const;

  // The largest segment that others than private pools have.
  Bytes LargestSegment() const;

  Bytes reserved() const;
  Bytes idle() const;
  // Highest reserved() since the last ResetPeak.
  Bytes ReservedPeak() const;
  void ResetPeak();

 private:
  // With the mutex held:
  CachedSegments::value_type* SegmentOf(const void* address);
  CachedBlock* Find(const void* block);
  void Reserve(Bytes change);
  Bytes Unreserved() const;
  // All that is not alive may be given back, for all that is known.
  bool IsExpandable() const { return mapped_ > Bytes{0} || !knows_places_; }

  Ledger ledger_;
  mutable std::mutex mutex_;
  CachedMemory memory_;
  std::atomic<bool> knows_places_ = true;
  std::atomic<int64_t> private_segments_ = 0;
  Bytes reserved_{};
  Bytes reserved_peak_{};
  Bytes mapped_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_
