// PyTorch's native CUDA allocator with a planned arena for each device
// (allocator/torch_cuda_device_arena.h) beside it.
//
// While a device's arena serves, tensors' blocks come from it, and from the
// native allocator where it has no room. A block of the arena has a deleter of
// its own. Raw blocks are the native allocator's, always.
//
// Statistics, snapshots and memory history tell of the arena's blocks as of any
// others, and of its memory as of a segment; so do trace trackers, those that
// were attached before.
//
// Below the budget (allocator/torch_cuda_allocator.h): a request that this
// fails is tried again when something has been freed.
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

#include "allocator/step_arena.h"
#include "allocator/torch_cuda_arena_history.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_device_arena.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {

class ArenaCudaAllocator final : public ForwardingCudaAllocator {
 public:
  // `inner`: the native one; both live for ever. There is one of these.
  ArenaCudaAllocator(native::CUDAAllocator* inner, StepArena::NameOp name_op);

  // As StepArena::BeginStep. Nothing of the device may be in capture.
  void BeginStep(c10::DeviceIndex device, bool is_wanted);
  // nullopt before the first step in which an arena was wanted.
  std::optional<StepArena::Facts> FactsOf(c10::DeviceIndex device) const;
  // As StepArena::GiveUpIdle, where so many bytes fit beside what is alive: for
  // more it would be in vain.
  bool GiveUpIdle(c10::DeviceIndex device, Bytes needed);
  // Whether the block is one of an arena's.
  bool Owns(const void* block) const { return ArenaOf(block) != nullptr; }
  // Of the arenas' blocks.
  static void Delete(void* block);

  c10::DataPtr allocate(size_t size) override;
  // The same of a request that has just failed: the plan has been asked.
  // `asked`: what the native allocator is asked for instead.
  c10::DataPtr AllocateAgain(size_t size, size_t asked);
  void* raw_alloc(size_t size) override;
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
  void raw_delete(void* block) override;
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
  DeviceArena* ArenaOf(c10::DeviceIndex device) const {
    return arenas_[device].load(std::memory_order_acquire);
  }
  DeviceArena* ArenaOf(const void* block) const;
  DeviceArena* MakeArena(c10::DeviceIndex device);
  void* Serve(DeviceArena* arena, size_t size, c10::cuda::CUDAStream stream,
              bool is_again);
  c10::DataPtr Allocate(size_t size, size_t asked, bool is_again);
  void NoteRaw();
  void Attach();

  const StepArena::NameOp name_op_;
  std::array<std::atomic<DeviceArena*>, kMaxCudaDevices> arenas_{};
  // How many of them there are; 0 keeps Owns out of the way.
  std::atomic<int> count_ = 0;
  // Private pools that requests may be going to.
  std::atomic<int> pools_ = 0;
  std::atomic<bool> attached_ = false;
  using Trackers = std::vector<native::AllocatorTraceTracker>;
  std::atomic<std::shared_ptr<const Trackers>> trackers_ =
      std::make_shared<const Trackers>();
  ArenaHistory history_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_H_
