// Sizes and residency of pages, for tests.
#ifndef EBBTIDE_TESTS_ALLOCATOR_PAGES_H_
#define EBBTIDE_TESTS_ALLOCATOR_PAGES_H_

#include <sys/mman.h>

#include "allocator/mapped_pages.h"
#include "planner/units.h"

namespace ebbtide {

constexpr Bytes KiB(int64_t n) { return Bytes{n << 10}; }
constexpr Bytes MiB(int64_t n) { return Bytes{n << 20}; }

inline bool Resident(const void* page) {
  unsigned char in_memory = 0;
  return mincore(const_cast<void*>(page), kPageSize, &in_memory) == 0 &&
         (in_memory & 1) != 0;
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_PAGES_H_
