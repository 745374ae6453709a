#include "allocator/torch_cuda_arena_stats.h"

#include <algorithm>
#include <array>

#include "allocator/torch_cuda_books.h"

namespace ebbtide {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using DeviceStats = ArenaStats::DeviceStats;
using Field = StatArray DeviceStats::*;

// Of blocks, and of segments. In both, first of all, then of small requests,
// then of large ones.
constexpr std::array<Field, 5> kOfBlocks = {
    &DeviceStats::allocation, &DeviceStats::active,
    &DeviceStats::allocated_bytes, &DeviceStats::active_bytes,
    &DeviceStats::requested_bytes};
constexpr std::array<Field, 4> kOfSegments = {
    &DeviceStats::segment, &DeviceStats::inactive_split,
    &DeviceStats::reserved_bytes, &DeviceStats::inactive_split_bytes};

// What a block of so many bytes is in each field of kOfBlocks.
std::array<size_t, 5> Amounts(size_t size) {
  const auto rounded = static_cast<size_t>(Count(RoundUp(size)));
  return {1, 1, rounded, rounded, size};
}

// Of a block that the native allocator counts.
std::array<size_t, 5> AmountsOf(const ArenaStats::OwnBlock& block) {
  return {1, 1, block.size, block.size, block.asked};
}

template <typename Fields, typename Visit>
void ForEach(const Fields& fields, Visit visit) {
  for (const Field field : fields) {
    for (size_t type = 0; type < StatArray().size(); ++type) visit(field, type);
  }
}

}  // namespace

void ArenaStats::OnTaken(const DeviceStats& before, OwnBlock block) {
  if (!HasMemory()) {
    ForEach(kOfBlocks, [&](Field field, size_t type) {
      Stat& peak = (peaks_.*field)[type];
      peak.peak = std::max(peak.peak, (before.*field)[type].peak);
    });
  }
  const std::array<size_t, 5> amounts = AmountsOf(block);
  for (size_t i = 0; i < kOfBlocks.size(); ++i) {
    for (const int type : {0, IsSmall(block.asked) ? 1 : 2}) {
      (held_.*kOfBlocks[i])[type].current += amounts[i];
      (taken_.*kOfBlocks[i])[type].allocated += amounts[i];
    }
  }
}

void ArenaStats::OnGivenBack(const DeviceStats& before, OwnBlock block) {
  const std::array<size_t, 5> amounts = AmountsOf(block);
  for (size_t i = 0; i < kOfBlocks.size(); ++i) {
    for (const int type : {0, IsSmall(block.asked) ? 1 : 2}) {
      (held_.*kOfBlocks[i])[type].current -= amounts[i];
      (taken_.*kOfBlocks[i])[type].freed += amounts[i];
    }
  }
  if (HasMemory()) return;
  ForEach(kOfSegments, [&](Field field, size_t type) {
    Stat& peak = (peaks_.*field)[type];
    peak.peak = std::max(peak.peak, (before.*field)[type].peak);
  });
}

void ArenaStats::OnAllocate(size_t size) {
  const auto amounts = Amounts(size);
  for (size_t i = 0; i < kOfBlocks.size(); ++i) {
    StatArray& stats = blocks_.*kOfBlocks[i];
    stats[0].increase(amounts[i]);
    stats[IsSmall(size) ? 1 : 2].increase(amounts[i]);
  }
  FollowPeaks();
}

void ArenaStats::OnFree(size_t size) {
  const auto amounts = Amounts(size);
  for (size_t i = 0; i < kOfBlocks.size(); ++i) {
    StatArray& stats = blocks_.*kOfBlocks[i];
    stats[0].decrease(amounts[i]);
    stats[IsSmall(size) ? 1 : 2].decrease(amounts[i]);
  }
}

void ArenaStats::OnNative(const DeviceStats& native) {
  native_ = native;
  if (HasMemory()) FollowPeaks();
}

void ArenaStats::FollowPeaks() {
  ForEach(kOfBlocks, [&](Field field, size_t type) {
    Stat& peak = (peaks_.*field)[type];
    peak.peak = std::max(peak.peak, (native_.*field)[type].current -
                                        (held_.*field)[type].current +
                                        (blocks_.*field)[type].current);
  });
}

void ArenaStats::ResetPeaks(const DeviceStats& native) {
  peaks_ = {};
  OnNative(native);
}

void ArenaStats::ResetAccumulated() {
  ForEach(kOfBlocks, [&](Field field, size_t type) {
    (taken_.*field)[type].reset_accumulated();
    (blocks_.*field)[type].reset_accumulated();
  });
}

DeviceStats ArenaStats::Joined(DeviceStats native) const {
  ForEach(kOfBlocks, [&](Field field, size_t type) {
    Stat& stat = (native.*field)[type];
    const Stat& blocks = (blocks_.*field)[type];
    const Stat& taken = (taken_.*field)[type];
    const int64_t native_peak = HasMemory() ? 0 : stat.peak;
    stat.current += blocks.current - (held_.*field)[type].current;
    stat.allocated += blocks.allocated - taken.allocated;
    stat.freed += blocks.freed - taken.freed;
    stat.peak =
        std::max({stat.current, native_peak, (peaks_.*field)[type].peak});
  });
  ForEach(kOfSegments, [&](Field field, size_t type) {
    Stat& stat = (native.*field)[type];
    stat.peak = std::max(stat.peak, (peaks_.*field)[type].peak);
  });
  return native;
}

}  // namespace ebbtide
