// `DeviceArena` is the arena of a CUDA device (allocator/arena/step_arena.h)
// below PyTorch's allocator: pages of the driver, within what the budget leaves
// beside the native allocator's memory; streams of PyTorch; statistics, history
// and snapshots of its blocks, as PyTorch has them of others.
//
// While requests may be going to private pools, as in captures, it serves none
// and queues nothing.
//
// Thread-safe, but for BeginStep, which one thread calls at a time. No lock of
// it is held while PyTorch's allocator is called, whose lock may be held while
// this is: it is the inner one.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_DEVICE_ARENA_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_DEVICE_ARENA_H_

#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/arena/page_arena.h"
#include "allocator/arena/page_system.h"
#include "allocator/arena/step_arena.h"
#include "allocator/cuda/device_pages.h"
#include "allocator/cuda_events.h"
#include "allocator/torch_cuda_arena_history.h"
#include "allocator/torch_cuda_arena_stats.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {

class DeviceArena final : DevicePages, StreamOrder {
 public:
  using SegmentInfo = c10::CachingDeviceAllocator::SegmentInfo;
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;
  using Trackers = std::vector<native::AllocatorTraceTracker>;

  struct Parts {
    native::CUDAAllocator* native;
    c10::DeviceIndex device;
    const CudaApi* api;
    const CudaDriver* driver;
    // Private pools that requests may go to.
    const std::atomic<int>* pools;
    ArenaHistory* history;
    const std::atomic<const Trackers*>* trackers;  // the program's, if any
    StepArena::NameOp name_op;
    Bytes total;   // memory of the device
    Bytes memory;  // for this process
  };
  // All parts outlive it. An error where the driver cannot map memory, or has
  // no addresses.
  static absl::StatusOr<std::unique_ptr<DeviceArena>> Make(const Parts& parts);

  // Bytes of `budget` beside planned addresses that nothing alive uses and no
  // other request can have: what is below a page, parts of pages, and a page
  // that the planned addresses end in.
  Bytes WasteBeside(Bytes budget) const;

  // As StepArena's. True where a plan may come to be served, and none is yet.
  bool BeginStep(int64_t plan);

  void EndPlan() { arena_.EndPlan(); }

  // A block of at least `size` bytes (positive); nullptr where there are not
  // enough pages for it. `is_last`: as StepArena's.
  void* Allocate(size_t size, c10::cuda::CUDAStream stream, bool is_last);
  // Blocks of the arena, and no others. Returns how many bytes the block had.
  Bytes Free(void* block);
  void KeepFor(const void* block, c10::cuda::CUDAStream stream);
  // Once it is free, its memory is used again only behind the event, which has
  // been recorded. False where no block begins there.
  bool KeepUntil(const void* block, std::shared_ptr<const CudaEvent> end);

  // False for more bytes than the device has.
  bool MayHold(size_t size) const {
    return size <= static_cast<size_t>(Count(parts_.total));
  }
  // False for streams that the program made itself.
  bool Serves(c10::cuda::CUDAStream stream) {
    return NumberOf(stream).has_value();
  }
  bool FindsRoom(size_t size, c10::cuda::CUDAStream stream);
  // As PageArena's. Returns how many bytes were given back.
  Bytes GiveBack(Bytes wanted, bool of_plan) {
    return pages_.GiveBack(wanted, of_plan);
  }
  // Gives all free pages back, the plan's only if `of_plan`.
  void GiveBackFree(bool of_plan) { GiveBack(pages_.mapped(), of_plan); }
  // The device may use the memory of this one from now on.
  void AllowPeer(c10::DeviceIndex device);

  bool Owns(const void* address) const { return pages_.Owns(address); }
  c10::DeviceIndex device() const { return parts_.device; }
  Bytes mapped() const { return pages_.mapped(); }
  StepArena::Facts facts() const;

  ArenaStats& stats() { return stats_; }
  void AddSegments(std::vector<SegmentInfo>* segments) const;
  ArenaHistory::Context ContextOf(const void* block) const;

 private:
  struct Block {
    size_t size = 0;
    c10::cuda::CUDAStream stream;
    // Streams that use it, too; those that are not PyTorch's apart.
    absl::InlinedVector<int, 2> others;
    absl::InlinedVector<cudaStream_t, 1> strangers;
    absl::InlinedVector<StreamMark, 1> ends;
    ArenaHistory::Context context;
  };

  DeviceArena(const Parts& parts, Bytes page);

  int64_t Room() const override;
  void OnMapped(char* begin, Bytes size) override;
  void OnUnmapped(char* begin, Bytes size) override;

  int streams() const override { return stream_count_; }
  absl::StatusOr<StreamMark> Mark(int stream) override;
  absl::Status RunBehind(const StreamMark& mark, int stream) override;
  bool IsOver(const StreamMark& mark) override;
  absl::Status Wait(const StreamMark& mark) override;

  // Bytes that the device has reserved beside the plan and free pages, and
  // those of them that are alive.
  std::pair<Bytes, Bytes> FindBeside() const;
  void Tell(TraceEntry::Action action, const void* block, size_t size,
            cudaStream_t stream, const ArenaHistory::Context& context);
  std::optional<int> NumberOf(c10::cuda::CUDAStream stream);
  absl::StatusOr<CudaEvent> EndOf(cudaStream_t stream);
  absl::Status Order(cudaStream_t before, cudaStream_t after);
  bool WaitFor(cudaStream_t stream);

  const Parts parts_;
  const std::shared_ptr<CudaEvents> events_;

  // By number; more streams are not served.
  static constexpr int kMostStreams = 32;
  std::array<std::atomic<cudaStream_t>, kMostStreams> streams_{};
  std::atomic<int> stream_count_ = 0;
  std::mutex streams_mutex_;

  ArenaStats stats_;
  mutable std::mutex mutex_;
  absl::flat_hash_map<const void*, Block> blocks_;
  std::pair<Bytes, Bytes> beside_;  // as StepArena::Facts

  PageArena pages_{this, this};
  StepArena arena_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_DEVICE_ARENA_H_
