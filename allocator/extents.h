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
#include "planner/units.h"

namespace ebbtide {

// [offset, offset + size)
struct Extent {
  int64_t offset = 0;
  Bytes size{};
};

class Extents {
 public:
  // All extents end at or before `limit`.
  explicit Extents(Bytes limit) : limit_(limit) {
    holes_.Add({.size = Count(limit)});
  }

  // An extent of `size` bytes (positive); nullopt if there is no room.
  std::optional<Extent> Take(Bytes size);
  // Gives back what Take returned. Never throws.
  void Give(Extent extent);

  Bytes limit() const { return limit_; }
  Bytes used() const;
  Bytes Largest() const;  // that Take has room for

 private:
  const Bytes limit_;
  mutable std::mutex mutex_;
  Bytes used_{};
  Holes holes_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_EXTENTS_H_
