// Sizes, residency and calls for pages, for tests.
#ifndef EBBTIDE_TESTS_ALLOCATOR_PAGES_H_
#define EBBTIDE_TESTS_ALLOCATOR_PAGES_H_

#include <sys/mman.h>

#include "allocator/mapped_pages.h"
#include "planner/units.h"

namespace ebbtide {

constexpr Bytes KiB(int64_t n) { return Bytes{n << 10}; }
constexpr Bytes MiB(int64_t n) { return Bytes{n << 20}; }

// Calls of the last system that was Counted; those that it refused count, too.
struct SystemCalls {
  int64_t maps = 0;
  int64_t unmaps = 0;
  int64_t moves = 0;
};
inline SystemCalls calls;
inline ArenaSystem counted;

inline ArenaSystem Counted(const ArenaSystem& system = ArenaSystem::Real()) {
  calls = {};
  counted = system;
  return {.map =
              [](size_t size) {
                ++calls.maps;
                return counted.map(size);
              },
          .unmap =
              [](void* address, size_t size) {
                ++calls.unmaps;
                return counted.unmap(address, size);
              },
          .move =
              [](void* from, size_t size, void* to) {
                ++calls.moves;
                return counted.move(from, size, to);
              }};
}

inline bool Resident(const void* page) {
  unsigned char in_memory = 0;
  return mincore(const_cast<void*>(page), kPageSize, &in_memory) == 0 &&
         (in_memory & 1) != 0;
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_PAGES_H_
