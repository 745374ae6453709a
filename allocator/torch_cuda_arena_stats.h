// `ArenaStats` are PyTorch's statistics of a CUDA device some of whose blocks
// lie in an arena: those of the native allocator, and the arena's.
//
// The native allocator's peaks are of its own blocks. So what is alive of both
// is followed, from the entries of traces.
//
// Thread-safe; its lock is the innermost.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_STATS_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_STATS_H_

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <mutex>

namespace ebbtide {

class ArenaStats {
 public:
  using DeviceStats = c10::CachingDeviceAllocator::DeviceStats;
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;

  // The native statistics before the first entry.
  void Begin(const DeviceStats& native);
  // Counts an entry of the arena's trace, or of the native allocator's.
  void OnTrace(TraceEntry::Action action, size_t size, bool is_of_arena);

  // As the functions of PyTorch's allocator, which are to be called besides.
  void ResetPeaks();
  void ResetAccumulated();

  // Those of both, from the native ones.
  DeviceStats Joined(DeviceStats native) const;

 private:
  mutable std::mutex mutex_;
  DeviceStats all_;    // `current` and `peak` of both
  DeviceStats arena_;  // but for the peaks
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_STATS_H_
