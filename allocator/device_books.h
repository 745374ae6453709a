// `DeviceBooks` are what PyTorch's allocator has of a CUDA device, as traces
// say: blocks alive by kind, in a ledger, and the bytes reserved from the
// device, in segments of the native allocator and pages of an arena.
//
// Thread-safe. Called under the native allocator's lock and the arena's: its
// own is the innermost, and it makes no calls under it.
#ifndef EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_
#define EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "allocator/ledger.h"
#include "planner/units.h"

namespace ebbtide {

class DeviceBooks {
 public:
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  void OnSegment(const void* segment, Bytes size, bool is_private);
  void OnSegmentFreed(const void* segment);
  // Pages, of an arena or of expandable segments.
  void OnMapped(Bytes size) { Reserve(Count(size)); }
  void OnUnmapped(Bytes size) { Reserve(-Count(size)); }

  // True if the block is in a segment of a private pool.
  bool IsPrivate(const void* block) const;

  Bytes reserved() const { return Bytes{reserved_.load()}; }
  // Highest reserved() since the last ResetPeak.
  Bytes ReservedPeak() const { return Bytes{reserved_peak_.load()}; }
  void ResetPeak() { reserved_peak_ = reserved_.load(); }

 private:
  struct Segment {
    Bytes size{};
    bool is_private = false;
  };

  void Reserve(int64_t change);

  Ledger ledger_;
  std::atomic<int64_t> private_segments_ = 0;
  std::atomic<int64_t> reserved_ = 0;
  std::atomic<int64_t> reserved_peak_ = 0;
  mutable std::mutex mutex_;
  std::map<const char*, Segment> segments_;  // by address
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_DEVICE_BOOKS_H_
