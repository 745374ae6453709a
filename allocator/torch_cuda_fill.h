// What new blocks are filled with, where somebody wants to see who reads bytes
// that nobody wrote.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_FILL_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_FILL_H_

#include <cstddef>

namespace ebbtide {

// From now on FillNewBlock fills with that byte on this thread; -1: it does
// nothing. Returns what held before.
int ExchangeFill(int byte);

// In the order of this thread's stream. Throws c10::Error where the device
// refuses.
void FillNewBlock(void* block, size_t size);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_FILL_H_
