// Where the blocks of a caching allocator lie, and which of them would have to
// go for a request to find room.
//
// Such an allocator has memory from the device in segments and gives a segment
// back only when nothing lies in it. So bytes that are freed are worth nothing
// by themselves: what counts are holes that a request fits into, and segments
// that become empty.
//
// Plain data and functions of it; the owner has a lock.
#ifndef EBBTIDE_ALLOCATOR_CACHED_SEGMENTS_H_
#define EBBTIDE_ALLOCATOR_CACHED_SEGMENTS_H_

#include <map>
#include <vector>

#include "absl/types/span.h"
#include "planner/units.h"

namespace ebbtide {

// At what point of a request memory turned out to be short.
enum class Shortage {
  kForeseen,  // before the allocator was asked: too much is alive
  kMissed,    // nothing cached fits; the allocator's lock is held
  kFailed,    // the allocator has failed: what is free lies in pieces
};

struct CachedBlock {
  Bytes size{};
  // Freed, but other streams may still use it. It is as good as free: who is
  // short of memory waits for them.
  bool is_leaving = false;
  bool is_arena = false;  // what lies in it is told of apart
};

struct CachedSegment {
  Bytes size{};
  bool is_private = false;       // of a pool that others do not allocate from
  bool is_arena = false;         // serves every request, and is not given back:
                                 // a part of a segment, which has it as a block
  bool is_small = false;         // for small requests, and for these alone
  const void* stream = nullptr;  // whose requests it serves
  std::map<const char*, CachedBlock> blocks;  // by address
};

using CachedSegments = std::map<const char*, CachedSegment>;  // by address

// Of a device. An arena is not in `segments`, although it begins in one.
struct CachedMemory {
  CachedSegments segments;
  CachedSegments arenas;
};

struct CacheRequest {
  Bytes size{};     // rounded as the allocator rounds
  Bytes segment{};  // what it takes from the device where there is no hole
  bool is_small = false;
  const void* stream = nullptr;
  bool may_use_arena = true;
  // The budget less what is reserved. Emptying the cache raises it.
  Bytes unreserved{};
};

// A block that may go, and what that costs, in a unit common to all.
struct Clearable {
  const void* block = nullptr;
  double price = 0;
};

// Whether nothing has to go: there is a hole, or a segment can be had when
// those that are empty are given back.
bool FindsRoom(const CachedMemory& memory, const CacheRequest& request);

// The cheapest known set after which FindsRoom holds: what lies together in one
// segment and leaves a hole, or what is left in segments that become empty. As
// indices of `clearables`, in the order of their addresses; empty where there
// is none. The hole is the cheapest, the segments are found greedily.
std::vector<int> CheapestToClear(const CachedMemory& memory,
                                 const CacheRequest& request,
                                 absl::Span<const Clearable> clearables);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CACHED_SEGMENTS_H_
