// Limits of PyTorch's CUDA allocator on each device, as it has been given them.
//
// Thread-safe.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_BUDGET_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_BUDGET_H_

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "allocator/ledger.h"
#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_books.h"
#include "planner/units.h"

namespace ebbtide {

class ArenaCudaAllocator;

struct CudaBudget {
  std::atomic<int64_t> budget = Count(kNoBudget);
  std::atomic<bool> has_been_asked_for = false;  // the budget, of the policy
  std::atomic<double> user_fraction = 1;
  // The native allocator was given a fraction, which its error text then names.
  std::atomic<bool> has_fraction = false;
  // The native fraction is that of budget and user_fraction.
  std::atomic<bool> is_settled = false;
  std::atomic<bool> is_used = false;
  // Memory of the device; 0 before it is used.
  std::atomic<Bytes> total = Bytes{};
  // Bytes that the native allocator had idle when they were given back last.
  std::atomic<int64_t> native_idle = 0;
};

inline std::array<CudaBudget, kMaxCudaDevices>& CudaBudgets() {
  static auto& budgets = *new std::array<CudaBudget, kMaxCudaDevices>;
  return budgets;
}

// Bytes that may be reserved: the budget, or the share of the device's `total`
// that the program has set, where that is less.
Bytes LimitOf(c10::DeviceIndex device, Bytes total);

// The ledger of the device has it, too.
void SetCudaBudget(c10::DeviceIndex device, Bytes budget);

// Before the first request under a new budget or fraction, because it needs the
// size of the device and with it the device's context: asks the policy, makes
// the arena, and gives back what nothing uses and is too much.
void CarryOutBudget(c10::DeviceIndex device,
                    const CudaAllocator::Policy& policy,
                    ArenaCudaAllocator* allocator);
// Limits the native allocator to what the arena leaves.
void SetNativeFraction(c10::DeviceIndex device, ArenaCudaAllocator* allocator);
// Gives empty segments of the native allocator back, of a device with an arena.
// False where there are none: it is asked only if something of it has been
// freed since.
bool GiveBackNative(c10::DeviceIndex device, ArenaCudaAllocator* allocator);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_BUDGET_H_
