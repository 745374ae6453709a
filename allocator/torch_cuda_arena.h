// `ArenaCudaAllocator` is PyTorch's native CUDA allocator with an arena for
// each device that has a budget (allocator/torch_cuda_device_arena.h) beside
// it.
//
// Blocks of tensors come from the arena, and have a deleter of its own. Raw
// ones, and those of private pools, into which CUDA graphs are captured, are
// the native allocator's.
//
// Statistics, snapshots and memory history have the arena's blocks as any
// others, and its pages as expandable segments; so do trace trackers.
//
// Below the budget (allocator/torch_cuda_allocator.h).
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_H_

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/arena/step_arena.h"
#include "allocator/torch_cuda_arena_history.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_device_arena.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {

class ArenaCudaAllocator : public ForwardingCudaAllocator {
 public:
  // `inner`: the native one; both live for ever. There is one of these.
  ArenaCudaAllocator(native::CUDAAllocator* inner, StepArena::NameOp name_op);

  // Makes the arena of a device with `total` bytes, of which `memory` are for
  // this process. An error, and all requests are the native allocator's, where
  // the device cannot map memory.
  absl::Status MakeArena(c10::DeviceIndex device, Bytes total, Bytes memory);
  // The device's; nullptr where there is none.
  DeviceArena* ArenaOf(c10::DeviceIndex device) const {
    return arenas_[device].load(std::memory_order_acquire);
  }
  // The same for a tensor: nullptr while requests may be going to private
  // pools, and for more bytes than the device has, which PyTorch refuses.
  DeviceArena* ArenaFor(c10::DeviceIndex device, size_t size) const;
  // True while requests may be going to private pools.
  bool HasOpenPool() const { return pools_ > 0; }
  // That of the block; nullptr for blocks of none.
  DeviceArena* ArenaOf(const void* block) const;
  bool Owns(const void* block) const { return ArenaOf(block) != nullptr; }
  // Deletes blocks of arenas.
  static void Delete(void* block);
  // As DeviceArena::Allocate; null where there are not enough pages.
  c10::DataPtr Allocate(DeviceArena* arena, size_t size, bool is_last);

  void raw_delete(void* block) override;
  void emptyCache(c10::MempoolId_t pool) override;
  void* getBaseAllocation(void* block, size_t* size) override;
  using ForwardingCudaAllocator::recordStream;
  void recordStream(const c10::DataPtr& data,
                    c10::cuda::CUDAStream stream) override;
  void init(int devices) override;

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device,
                         c10::MempoolId_t pool) override;

  void attachAllocatorTraceTracker(
      native::AllocatorTraceTracker tracker) override;
  native::ShareableHandle shareIpcHandle(void* block) override;
  void enablePeerAccess(c10::DeviceIndex from, c10::DeviceIndex to) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from,
                          int from_device, size_t count, cudaStream_t stream,
                          bool peers) override;

  native::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                bool include_traces) override;
  void recordHistory(bool enabled, native::CreateContextFn recorder,
                     size_t max_entries, native::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override;
#if TORCH_VERSION_MINOR >= 12
  std::shared_ptr<c10::GatheredContext> getContextForPointer(
      const void* block) override;
#endif
#if TORCH_VERSION_MINOR >= 14
  void annotateMemory(const void* block, const std::string& what) override;
#endif

 private:
  void Attach();

  const StepArena::NameOp name_op_;
  std::array<std::atomic<DeviceArena*>, kMaxCudaDevices> arenas_{};
  // How many of them there are; 0 keeps Owns out of the way.
  std::atomic<c10::DeviceIndex> count_ = 0;
  // Private pools that requests may be going to.
  std::atomic<int> pools_ = 0;
  std::atomic<bool> attached_ = false;
  std::atomic<const DeviceArena::Trackers*> trackers_ = nullptr;
  ArenaHistory history_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_H_
