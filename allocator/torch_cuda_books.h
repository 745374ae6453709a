// The books of the CUDA devices (allocator/device_books.h), kept from what
// PyTorch's native caching allocator tells.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_BOOKS_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_BOOKS_H_

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/cuda/CUDAMacros.h>

#include <cstddef>

#include "allocator/cached_segments.h"
#include "allocator/device_books.h"
#include "planner/units.h"

namespace ebbtide {

inline constexpr int kMaxCudaDevices = C10_COMPILE_TIME_MAX_GPUS;

// What the native allocator makes of a request.
Bytes RoundUp(size_t size);
// Which of its two kinds of segments the request is served from.
bool IsSmall(size_t size);
// The largest that it reserves for a request that is smaller.
Bytes LargeSegment();
// What to ask for so that no more is reserved than the request needs: for one
// of 1 to 10 MiB the native allocator would reserve LargeSegment, in the hope
// of more of them.
size_t SizeForLeastSegment(size_t size);
// What is reserved for that.
Bytes LeastSegmentFor(size_t size);
CacheRequest CacheRequestFor(size_t size, const void* stream);

DeviceBooks& BooksOf(c10::DeviceIndex device);

// An AllocatorTraceTracker: runs under the native allocator's lock.
void NoteTrace(const c10::CachingDeviceAllocator::TraceEntry& entry);

// What was there before the trace was attached.
void NoteBefore(const c10::CachingDeviceAllocator::SegmentInfo& segment);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_BOOKS_H_
