// What a CUDA device's caching allocator holds, as its own trace tells it:
// blocks alive by kind, in a ledger, and segments, the pieces it has from the
// device.
//
// Reserved are the bytes of segments; idle are those of them that emptying the
// cache would give back: segments of the common pool without a block, or, where
// segments are expandable, whatever is not alive (an upper bound there, for
// pages that are partly used stay).
//
// Thread-safe. Called under the native allocator's lock: its own is the
// innermost, and it calls nobody.
#ifndef EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_
#define EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "absl/synchronization/mutex.h"
#include "allocator/ledger.h"
#include "planner/units.h"
#include "profiler/kind.h"

namespace ebbtide {

class DeviceBooks {
 public:
  enum class Pool { kCommon, kPrivate };

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  void OnAllocate(const void* block, Bytes size, Kind kind);
  // Blocks it was not told of are ignored: they are older than the books.
  void OnFree(const void* block);

  void OnSegment(const void* segment, Bytes size, Pool pool);
  void OnSegmentFreed(const void* segment);
  // Parts of expandable segments.
  void OnMapped(Bytes size);
  void OnUnmapped(Bytes size);

  // Whether the block is in a segment of a private pool.
  bool IsPrivate(const void* block) const;

  Bytes reserved() const;
  Bytes idle() const;
  // Highest reserved() since the last ResetPeak.
  Bytes ReservedPeak() const;
  void ResetPeak();

 private:
  struct Segment {
    Bytes size{};
    Pool pool = Pool::kCommon;
    int64_t blocks = 0;  // alive
  };
  // With the mutex held:
  const Segment* SegmentOf(const void* block) const;
  Segment* SegmentOf(const void* block);
  void Reserve(Bytes change);

  Ledger ledger_;
  mutable std::mutex mutex_;
  std::map<const void*, Segment> segments_;
  std::atomic<int64_t> private_segments_ = 0;
  Bytes reserved_{};
  Bytes reserved_peak_{};
  Bytes idle_{};  // of segments
  Bytes mapped_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_
