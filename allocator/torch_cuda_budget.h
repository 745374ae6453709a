// What PyTorch's CUDA allocator may take of each device, and how much of that
// it has been told.
//
// Thread-safe.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_BUDGET_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_BUDGET_H_

#include <c10/core/Device.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "allocator/ledger.h"
#include "allocator/torch_cuda_books.h"
#include "planner/units.h"

namespace ebbtide {

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
  // DeviceBooks::NativeIdle when it was given back last.
  std::atomic<int64_t> native_idle = 0;
};

inline std::array<CudaBudget, kMaxCudaDevices>& CudaBudgets() {
  static auto& budgets = *new std::array<CudaBudget, kMaxCudaDevices>;
  return budgets;
}

// Bytes that may be reserved: the budget, or the share of the device's `total`
// that the program has set, where that is less.
inline Bytes LimitOf(c10::DeviceIndex device, Bytes total) {
  const CudaBudget& state = CudaBudgets()[device];
  const double share = state.user_fraction * static_cast<double>(Count(total));
  return std::min(Bytes{state.budget.load()},
                  Bytes{static_cast<int64_t>(share)});
}

// The ledger of the device has it, too.
inline void SetCudaBudget(c10::DeviceIndex device, Bytes budget) {
  BooksOf(device).ledger().SetBudget(budget);
  CudaBudgets()[device].budget = Count(budget);
}

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_BUDGET_H_
