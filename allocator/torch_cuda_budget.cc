#include "allocator/torch_cuda_budget.h"

#include <algorithm>
#include <optional>

#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_arena.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;

// Asks the policy for the budget, unless the program has set one.
void Ask(DeviceIndex device, const CudaAllocator::Policy& policy,
         ArenaCudaAllocator* allocator) {
  CudaBudget& state = CudaBudgets()[device];
  const auto [free, total] = allocator->getMemoryInfo(device);
  state.total = Bytes{static_cast<int64_t>(total)};
  if (state.has_been_asked_for.exchange(true) || policy.budget == nullptr) {
    return;
  }
  SetCudaBudget(
      device,
      policy.budget(device, {.total = Bytes{static_cast<int64_t>(total)},
                             .free = Bytes{static_cast<int64_t>(free)},
                             .reserved = BooksOf(device).reserved()}));
}

void MakeArena(DeviceIndex device, const CudaAllocator::Policy& policy,
               ArenaCudaAllocator* allocator) {
  const Bytes total = CudaBudgets()[device].total;
  const absl::Status made =
      allocator->MakeArena(device, total, LimitOf(device, total));
  if (!made.ok() && policy.on_no_arena != nullptr) {
    policy.on_no_arena(device, made);
  }
}

// Memory that nothing uses, where a budget has become smaller than what is
// reserved. While a graph is captured PyTorch cannot look for it.
void GiveBackExcess(DeviceIndex device, ArenaCudaAllocator* allocator) {
  if (allocator->HasOpenPool() ||
      BooksOf(device).reserved() <=
          LimitOf(device, CudaBudgets()[device].total)) {
    return;
  }
  allocator->emptyCache({0, 0});
}

// Bytes reserved by the native allocator that are not alive: an upper bound of
// what emptying its cache gives back.
int64_t NativeIdle(DeviceIndex device, const DeviceArena& arena) {
  const DeviceBooks& books = BooksOf(device);
  const PageArena::Facts pages = arena.facts().pages;
  const Bytes reserved = books.reserved() - pages.mapped;
  const Bytes alive = books.ledger().live() - pages.alive;
  return std::max<int64_t>(0, Count(reserved - alive));
}

}  // namespace

Bytes LimitOf(DeviceIndex device, Bytes total) {
  const CudaBudget& state = CudaBudgets()[device];
  const double share = state.user_fraction * static_cast<double>(Count(total));
  return std::min(Bytes{state.budget.load()},
                  Bytes{static_cast<int64_t>(share)});
}

void SetCudaBudget(DeviceIndex device, Bytes budget) {
  BooksOf(device).ledger().SetBudget(budget);
  CudaBudgets()[device].budget = Count(budget);
}

void CarryOutBudget(DeviceIndex device, const CudaAllocator::Policy& policy,
                    ArenaCudaAllocator* allocator) {
  CudaBudget& state = CudaBudgets()[device];
  if (state.is_settled || !allocator->initialized()) return;
  if (state.is_settled.exchange(true)) return;
  state.is_used = true;
  // The stream may be in capture.
  const auto api = CudaApi::Loaded();
  std::optional<CudaScope> relaxed;
  if (api.ok()) relaxed.emplace(**api);
  Ask(device, policy, allocator);
  if (allocator->name() == "native" && state.budget != Count(kNoBudget)) {
    MakeArena(device, policy, allocator);
  }
  SetNativeFraction(device, allocator);
  GiveBackExcess(device, allocator);
}

void SetNativeFraction(DeviceIndex device, ArenaCudaAllocator* allocator) {
  CudaBudget& state = CudaBudgets()[device];
  double fraction = state.user_fraction;
  if (state.budget != Count(kNoBudget)) {
    DeviceArena* const arena = allocator->ArenaOf(device);
    Bytes limit = LimitOf(device, state.total);
    if (arena != nullptr) limit -= arena->mapped();
    // The native allocator multiplies and rounds down.
    fraction = std::clamp((static_cast<double>(Count(limit)) + 0.5) /
                              static_cast<double>(Count(state.total.load())),
                          0.0, fraction);
  }
  if (fraction >= 1 && !state.has_fraction) return;
  state.has_fraction = true;
  allocator->inner().setMemoryFraction(std::min(fraction, 1.0), device);
}

bool GiveBackNative(DeviceIndex device, ArenaCudaAllocator* allocator) {
  CudaBudget& state = CudaBudgets()[device];
  const DeviceArena& arena = *allocator->ArenaOf(device);
  if (NativeIdle(device, arena) <= state.native_idle) return false;
  const Bytes before = BooksOf(device).reserved();
  allocator->inner().emptyCache({0, 0});
  state.native_idle = NativeIdle(device, arena);
  return BooksOf(device).reserved() < before;
}

}  // namespace ebbtide
