// Small blocks, 64-byte aligned. A thread keeps the blocks that it frees for
// its own next requests, up to a bound: most tensors of a step are small and
// short-lived, and an aligned block of the C library takes longer to find and
// to give back than many an op on it.
//
// Blocks come from posix_memalign one by one and may be freed on any thread. A
// thread that ends frees what it keeps. Kept blocks are not in use: no ledger
// counts them.
#ifndef EBBTIDE_ALLOCATOR_SMALL_BLOCKS_H_
#define EBBTIDE_ALLOCATOR_SMALL_BLOCKS_H_

#include <cstddef>

namespace ebbtide {

// Larger ones go straight to the C library.
inline constexpr size_t kLargestKept = 4096;
// Bytes of each size that a thread keeps, in all 1 MiB at most.
inline constexpr size_t kMostKept = 16 << 10;

// At least `size` bytes, which is above 0; nullptr if the system has none.
void* AllocateSmallBlock(size_t size);
// Bytes that may be used of the block: at least what was asked for.
size_t UsableBytes(void* block);
void FreeSmallBlock(void* block);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_SMALL_BLOCKS_H_
