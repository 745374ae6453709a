// The memory history of blocks in an arena, as PyTorch records that of others
// (torch.cuda.memory._record_memory_history and _snapshot).
//
// Thread-safe.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_HISTORY_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_HISTORY_H_

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ebbtide {

class ArenaHistory {
 public:
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;
  using Context = std::shared_ptr<c10::GatheredContext>;

  // The arguments of recordHistory.
  struct Settings {
    bool is_enabled = false;
    c10::CachingDeviceAllocator::CreateContextFn recorder = nullptr;
    size_t max_entries = 0;
    c10::CachingDeviceAllocator::RecordContext when =
        c10::CachingDeviceAllocator::RecordContext::NEVER;
    bool clear = false;
    std::vector<std::string> skipped;  // actions
  };
  void Set(const Settings& settings);
  bool is_enabled() const { return is_enabled_; }

  // The context of a block that is being asked for, where that is wanted.
  Context ContextOfBlock() const;
  // `entry`: of ALLOC, FREE_REQUESTED or FREE_COMPLETED, at this time.
  // `context`: the block's.
  void Add(TraceEntry entry, Context context);

  // Entries of the device, oldest first, with times as a snapshot has them.
  std::vector<TraceEntry> Entries(c10::DeviceIndex device) const;

 private:
  std::atomic<bool> is_enabled_ = false;
  mutable std::mutex mutex_;
  Settings settings_;
  std::deque<TraceEntry> entries_;
  mutable c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_HISTORY_H_
