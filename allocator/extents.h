// Divides an address range that starts at 0 into extents: best fit, neighbours
// coalesced, the end of the range drawn back when what lies before it is free.
//
// Thread-safe. Take and Give are O(log holes).
#ifndef EBBTIDE_ALLOCATOR_EXTENTS_H_
#define EBBTIDE_ALLOCATOR_EXTENTS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

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
  explicit Extents(Bytes limit) : limit_(limit) {}

  // An extent of `size` bytes (positive); nullopt if there is no room.
  std::optional<Extent> Take(Bytes size);
  // Gives back what Take returned.
  void Give(Extent extent);

  Bytes limit() const { return limit_; }
  Bytes used() const;
  Bytes Largest() const;  // that Take has room for

  // Holes are disjoint, never adjacent, before the end, and with what is used
  // they add up; for tests. O(holes).
  bool Check() const;

 private:
  std::optional<Extent> TakeHole(Bytes size);
  void AddHole(Extent hole);

  const Bytes limit_;
  mutable std::mutex mutex_;
  int64_t end_ = 0;
  Bytes used_{};
  std::map<int64_t, Bytes> holes_;  // by offset
  std::set<std::pair<Bytes, int64_t>> by_size_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_EXTENTS_H_
