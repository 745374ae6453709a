// Divides an address range that starts at 0 into extents, each in the smallest
// hole that has room.
//
// Thread-safe. Take and Give are O(log holes).
#ifndef EBBTIDE_ALLOCATOR_EXTENTS_H_
#define EBBTIDE_ALLOCATOR_EXTENTS_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "allocator/holes.h"
#include "planner/place_problem.h"
#include "planner/units.h"

namespace ebbtide {

// [offset, offset + size)
struct Extent {
  int64_t offset = 0;
  Bytes size{};
};

class Extents {
 public:
  // All extents end at or before `limit`. Their sizes are multiples of `grain`,
  // and so are their addresses.
  Extents(Bytes limit, int64_t grain) : limit_(limit), grain_(grain) {
    holes_.Add({.size = Count(limit)});
  }

  // An extent of at least `size` bytes (positive); nullopt if there is no room.
  std::optional<Extent> Take(Bytes size) {
    const int64_t need = AlignUp(Count(size), grain_);
    std::lock_guard lock(mutex_);
    const std::optional<Hole> hole = holes_.Best(need);
    if (!hole) return std::nullopt;
    holes_.TakeFront(*hole, need);
    used_ += Bytes{need};
    return Extent{hole->begin, Bytes{need}};
  }
  // Gives back what Take returned. Never throws.
  void Give(Extent extent) {
    std::lock_guard lock(mutex_);
    used_ -= extent.size;
    holes_.Add({.begin = extent.offset, .size = Count(extent.size)});
  }

  Bytes limit() const { return limit_; }
  Bytes used() const {
    std::lock_guard lock(mutex_);
    return used_;
  }
  Bytes Largest() const {  // that Take has room for
    std::lock_guard lock(mutex_);
    return Bytes{holes_.Largest() / grain_ * grain_};
  }

 private:
  const Bytes limit_;
  const int64_t grain_;
  mutable std::mutex mutex_;
  Bytes used_{};
  Holes holes_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_EXTENTS_H_
