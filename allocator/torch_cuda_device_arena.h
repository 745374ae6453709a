// A planned arena (allocator/step_arena.h) of a CUDA device in memory of
// PyTorch's native allocator, of which its runs are blocks: so that it is among
// the reserved bytes and within the memory fraction, is registered where
// segments are, and can be shared with other processes. Runs are what lies free
// in segments that PyTorch cannot give back, and what is missing beside that.
//
// Trace trackers are told of the blocks in it, and not of those.
//
// It takes them when it begins to serve, behind all that was queued on the
// device, and gives them back behind all that its blocks' streams do. While
// requests may be going to private pools, as in captures, it serves none and
// queues nothing.
//
// Thread-safe as StepArena is. No lock of it is held while PyTorch's allocator
// is called.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_DEVICE_ARENA_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_DEVICE_ARENA_H_

#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/cuda_events.h"
#include "allocator/step_arena.h"
#include "allocator/torch_cuda_arena_history.h"
#include "allocator/torch_cuda_arena_stats.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {

class DeviceArena final : ArenaMemory, ArenaOrder {
 public:
  using SegmentInfo = c10::CachingDeviceAllocator::SegmentInfo;
  using BlockInfo = c10::CachingDeviceAllocator::BlockInfo;
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;

  // All outlive this. `pools`: how many private pools requests may go to.
  // `tell`: calls the trace trackers. `name_op`: as StepArena's.
  DeviceArena(native::CUDAAllocator* native, c10::DeviceIndex device,
              const CudaApi* api, const std::atomic<int>* pools,
              ArenaHistory* history, native::AllocatorTraceTracker tell,
              StepArena::NameOp name_op);

  // Whether the entry, which the native allocator makes on this thread just
  // now, is of a block that an arena takes for itself or gives back.
  static bool IsOfMemory(const TraceEntry& entry);

  void BeginStep(bool is_wanted);

  // A block of at least `size` bytes (positive), from where the plan has it or
  // from anywhere; nullptr where there is none, or the plan leaves it to
  // others.
  void* Allocate(size_t size, c10::cuda::CUDAStream stream);
  void* AllocateAnywhere(size_t size, c10::cuda::CUDAStream stream);
  // As StepArena's.
  bool GiveUpIdle() { return arena_.GiveUpIdle(); }
  // Blocks of the arena, and no others. Returns how many bytes the block had.
  Bytes Free(void* block);
  void KeepFor(const void* block, c10::cuda::CUDAStream stream);

  // The native allocator has served, or is about to get back.
  void OnNative(const void* block, size_t size, c10::cuda::CUDAStream stream);
  void OnNativeFree(const void* block);
  // It has served something.
  void OnNativeChange();

  bool Owns(const void* address) const { return arena_.Owns(address); }
  c10::DeviceIndex device() const { return device_; }
  bool HasMemory() const { return arena_.HasMemory(); }
  // Where the native allocator's block begins that the address is in.
  char* BaseOf(const void* address) const { return arena_.RunOf(address).base; }
  StepArena::Facts facts() const;

  // What PyTorch is told, made of what its allocator says.
  ArenaStats::DeviceStats Joined(const ArenaStats::DeviceStats& native) const;
  void ResetPeaks();
  void ResetAccumulated();
  void Fill(SegmentInfo* segment) const;
  // Whether it is of the arena's own block.
  bool IsOwn(const TraceEntry& entry) const;
  ArenaHistory::Context ContextOf(const void* block) const;

 private:
  struct Block {
    size_t size = 0;
    c10::cuda::CUDAStream stream;
    // Streams that use it, too; those that are not PyTorch's apart.
    absl::InlinedVector<int, 2> others;
    absl::InlinedVector<cudaStream_t, 1> strangers;
    ArenaHistory::Context context;
  };

  absl::Status TakeHoles(std::vector<ArenaRun>* runs) override;
  absl::Status TakeSmallHoles(std::vector<ArenaRun>* runs) override;
  absl::Status Take(Bytes size, std::vector<ArenaRun>* runs) override;
  absl::Status Shorten(Bytes size, ArenaRun* run) override;
  std::optional<ArenaRun> TakeFor(Bytes size, int stream) override;
  bool GiveBack(absl::Span<const ArenaRun> runs) override;
  absl::Status NoteEnd(int slot, absl::Span<const int> streams) override;
  absl::Status RunBehind(int slot, int stream) override;
  absl::Status RunBehindAll(int stream) override;

  static bool IsOfBlock(const TraceEntry& entry);
  // Free in a segment with other blocks.
  struct Hole {
    ArenaRun run;
    cudaStream_t stream = nullptr;
  };
  std::vector<Hole> HolesIn(bool large) const;
  void TakeAll(const std::vector<Hole>& holes, absl::Span<const Hole> wanted,
               std::vector<ArenaRun>* runs);
  ArenaRun TakeBlock(Bytes size, cudaStream_t stream);
  void GiveBackIdle();
  cudaStream_t StreamOf(const ArenaRun& run) const;
  void* Book(void* block, size_t size, c10::cuda::CUDAStream stream);
  void FillRun(size_t begin, size_t end, SegmentInfo* segment,
               std::vector<BlockInfo>* blocks) const;
  void Tell(TraceEntry::Action action, const void* block, const Block& what);
  std::optional<int> NumberOf(c10::cuda::CUDAStream stream);
  absl::StatusOr<CudaEvent> EndOf(cudaStream_t stream);
  absl::Status Order(cudaStream_t before, cudaStream_t after);

  native::CUDAAllocator& native_;
  const c10::DeviceIndex device_;
  const CudaApi& api_;
  const std::atomic<int>& pools_;
  ArenaHistory& history_;
  const native::AllocatorTraceTracker tell_;
  const std::shared_ptr<CudaEvents> events_;

  // By number; more streams are not served.
  static constexpr int kMostStreams = 32;
  std::array<std::atomic<cudaStream_t>, kMostStreams> streams_{};
  std::atomic<int> stream_count_ = 0;
  std::mutex streams_mutex_;

  // Under the lock of the planned arena, which calls.
  std::vector<absl::InlinedVector<CudaEvent, 1>> ends_;  // by slot

  // What the native allocator had has changed since `stats_` knows it.
  std::atomic<bool> is_stale_ = true;

  mutable std::mutex mutex_;
  absl::flat_hash_map<const void*, Block> blocks_;
  ArenaStats stats_;
  int steps_served_ = 0;  // of BeginStep's thread
  // As StepArena::Facts.
  Bytes beside_{};
  Bytes beside_alive_{};
  // The arena's own blocks, those that it has now and those that it had.
  struct Own {
    size_t address = 0;
    ArenaStats::OwnBlock block;
    cudaStream_t stream = nullptr;
    bool is_held = true;
  };
  std::vector<Own> own_;

  StepArena arena_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_DEVICE_ARENA_H_
