// Steps of a program, as a device's arena gets them.
#ifndef EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_STEPS_H_
#define EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_STEPS_H_

#include <c10/core/Device.h>

#include <cstdint>

#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_device_arena.h"

namespace ebbtide {

// False where the device has no arena, too.
inline bool BeginStep(c10::DeviceIndex device, int64_t plan) {
  DeviceArena* const arena = CudaAllocator::ArenaOf(device);
  return arena != nullptr && arena->BeginStep(plan);
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_STEPS_H_
