// The functions that PyTorch's CUDAPluggableAllocator takes, for versions of
// torch that ebbtide's allocator (torch_cuda_allocator.h) was not built for. It
// uses no torch and keeps books and the budgets of EBBTIDE_BUDGET only: nothing
// is evicted and nothing cached, each block is one of the CUDA runtime that
// torch has loaded. Freeing waits for the device, so that no stream still uses
// the block.
//
// Thread-safe.
#ifndef EBBTIDE_ALLOCATOR_PLUGGABLE_ALLOCATOR_H_
#define EBBTIDE_ALLOCATOR_PLUGGABLE_ALLOCATOR_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#define EBBTIDE_EXPORT __attribute__((visibility("default")))

extern "C" {

// On `device`, the current one; nullptr for no bytes. Where they do not fit the
// budget, or the device has none left, it throws std::runtime_error, which
// Python sees as a RuntimeError that begins as PyTorch's own does, "CUDA out of
// memory."
EBBTIDE_EXPORT void* ebbtide_alloc(size_t size, int device,
                                   cudaStream_t stream);
EBBTIDE_EXPORT void ebbtide_free(void* block, size_t size, int device,
                                 cudaStream_t stream);

// Bytes alive on a device, in pieces of 512, and the most there were.
EBBTIDE_EXPORT int64_t ebbtide_live(int device);
EBBTIDE_EXPORT int64_t ebbtide_peak(int device);

}  // extern "C"

#endif  // EBBTIDE_ALLOCATOR_PLUGGABLE_ALLOCATOR_H_
