// The books of the CUDA devices (allocator/device_books.h), kept from the trace
// of PyTorch's native caching allocator.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_BOOKS_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_BOOKS_H_

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/cuda/CUDAMacros.h>

#include <cstddef>

#include "allocator/device_books.h"
#include "planner/units.h"

namespace ebbtide {

inline constexpr int kMaxCudaDevices = C10_COMPILE_TIME_MAX_GPUS;

// Size of the block that the native allocator gives a request.
Bytes RoundUp(size_t size);
// Which of its two kinds of segments the request is served from.
bool IsSmall(size_t size);
// Size of the segment that it reserves for the request if nothing cached fits.
Bytes SegmentFor(size_t size);

DeviceBooks& BooksOf(c10::DeviceIndex device);

// Books an entry of a trace. Runs under the native allocator's lock for entries
// of its own.
void Note(c10::DeviceIndex device,
          c10::CachingDeviceAllocator::TraceEntry::Action action,
          const void* address, size_t size, c10::MempoolId_t pool = {0, 0});

// Books a segment from before the trace was attached.
void NoteBefore(const c10::CachingDeviceAllocator::SegmentInfo& segment);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_BOOKS_H_
