// The native text of an OutOfMemoryError with the numbers of the whole device:
// the native allocator has only its own, and not those of an arena.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_OOM_TEXT_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_OOM_TEXT_H_

#include <c10/core/CachingDeviceAllocator.h>

#include <string>

#include "planner/units.h"

namespace ebbtide {

// The text with the statistics' sizes, and `limit` as what is allowed, where it
// names them.
std::string WithNumbers(std::string text,
                        const c10::CachingDeviceAllocator::DeviceStats& stats,
                        Bytes limit);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_OOM_TEXT_H_
