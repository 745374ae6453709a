// PyTorch's statistics of a CUDA device some of whose blocks lie in an arena.
//
// The native allocator counts the arena's memory as one block, and not what
// lies in it. Here the one is taken out of its statistics and the other put in.
// Its own peaks do not know of blocks in the arena, so the sums are followed
// while the arena has memory: at each request, with what the native allocator
// had when it was last asked.
//
// Not thread-safe.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_STATS_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_STATS_H_

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>

#include "planner/units.h"

namespace ebbtide {

class ArenaStats {
 public:
  using DeviceStats = c10::CachingDeviceAllocator::DeviceStats;

  // A block of the native allocator that is the arena's.
  struct OwnBlock {
    size_t size = 0;
    size_t asked = 0;  // as it was asked for
  };
  // It was taken; what the native statistics were before.
  void OnTaken(const DeviceStats& before, OwnBlock block);
  // It is about to be given back. Behind the last one the native peaks are to
  // be reset.
  void OnGivenBack(const DeviceStats& before, OwnBlock block);
  // Of the arena's blocks.
  Bytes Alive() const { return Bytes{blocks_.allocated_bytes[0].current}; }
  bool HasMemory() const { return held_.allocation[0].current > 0; }

  // A block of the arena, as it was asked for.
  void OnAllocate(size_t size);
  void OnFree(size_t size);
  // What the native allocator has now.
  void OnNative(const DeviceStats& native);

  // As the functions of PyTorch's allocator, which are to be called besides,
  // before.
  void ResetPeaks(const DeviceStats& native);
  void ResetAccumulated();

  // Of both, made of the native ones.
  DeviceStats Joined(DeviceStats native) const;

 private:
  void FollowPeaks();

  DeviceStats native_;  // `current` when it was last asked
  DeviceStats held_;    // `current` of the arena's memory, in the native ones
  DeviceStats taken_;   // `allocated` and `freed` of it
  DeviceStats blocks_;  // but for the peaks
  DeviceStats peaks_;   // `peak` of the sums; of native ones, up to the last
                        // time that they were reset on our account
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_ARENA_STATS_H_
