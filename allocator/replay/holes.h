// Free addresses of a policy's model.
#ifndef EBBTIDE_ALLOCATOR_REPLAY_HOLES_H_
#define EBBTIDE_ALLOCATOR_REPLAY_HOLES_H_

#include <cstdint>
#include <map>

namespace ebbtide {

using Holes = std::map<int64_t, int64_t>;  // sizes by address

// [address, address + size) is free from now on; neighbours become one hole.
void AddHole(Holes* holes, int64_t address, int64_t size);

// The smallest that is large enough, the lowest of those; end() if none is.
Holes::iterator BestHole(Holes* holes, int64_t size);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_REPLAY_HOLES_H_
