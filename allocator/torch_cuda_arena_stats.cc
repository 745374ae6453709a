#include "allocator/torch_cuda_arena_stats.h"

#include <algorithm>
#include <array>

#include "allocator/torch_cuda_books.h"

namespace ebbtide {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using DeviceStats = ArenaStats::DeviceStats;
using TraceEntry = ArenaStats::TraceEntry;
using Field = StatArray DeviceStats::*;

// Fields that are followed. In each, first of all requests, then of small ones,
// then of large ones.
constexpr std::array<Field, 6> kFields = {
    &DeviceStats::allocation,      &DeviceStats::allocated_bytes,
    &DeviceStats::active,          &DeviceStats::active_bytes,
    &DeviceStats::requested_bytes, &DeviceStats::reserved_bytes};

void Change(DeviceStats* stats, Field field, bool is_small, int64_t change) {
  for (const size_t type : {size_t{0}, size_t{is_small ? 1U : 2U}}) {
    Stat& stat = (stats->*field)[type];
    if (change > 0) {
      stat.increase(static_cast<size_t>(change));
    } else {
      stat.decrease(static_cast<size_t>(-change));
    }
  }
}

// By what the fields change with an entry.
template <typename Visit>  // void Visit(Field, bool is_small, int64_t change)
void ForEachChange(TraceEntry::Action action, size_t bytes, Visit visit) {
  const auto asked = static_cast<int64_t>(bytes);
  const int64_t size = Count(RoundUp(bytes));
  const bool is_small = IsSmall(bytes);
  const auto allocated = [&](int64_t by) {
    visit(&DeviceStats::allocation, is_small, by);
    visit(&DeviceStats::allocated_bytes, is_small, by * size);
  };
  const auto active = [&](int64_t by) {
    visit(&DeviceStats::active, is_small, by);
    visit(&DeviceStats::active_bytes, is_small, by * size);
    visit(&DeviceStats::requested_bytes, is_small, by * asked);
  };
  switch (action) {
    case TraceEntry::ALLOC:
      allocated(1);
      return active(1);
    case TraceEntry::FREE_REQUESTED:
      return allocated(-1);
    case TraceEntry::FREE_COMPLETED:
      return active(-1);
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
      return visit(&DeviceStats::reserved_bytes, /*is_small=*/false, asked);
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
      return visit(&DeviceStats::reserved_bytes, /*is_small=*/false, -asked);
    default:
      return;
  }
}

template <typename Visit>  // void Visit(Field, size_t type)
void ForEachStat(Visit visit) {
  for (const Field field : kFields) {
    for (size_t type = 0; type < StatArray().size(); ++type) visit(field, type);
  }
}

}  // namespace

void ArenaStats::Begin(const DeviceStats& native) {
  const std::lock_guard lock(mutex_);
  all_ = native;
}

void ArenaStats::OnTrace(TraceEntry::Action action, size_t size,
                         bool is_of_arena) {
  const std::lock_guard lock(mutex_);
  ForEachChange(action, size, [&](Field field, bool is_small, int64_t change) {
    Change(&all_, field, is_small, change);
    if (is_of_arena) Change(&arena_, field, is_small, change);
  });
}

void ArenaStats::ResetPeaks() {
  const std::lock_guard lock(mutex_);
  ForEachStat(
      [&](Field field, size_t type) { (all_.*field)[type].reset_peak(); });
}

void ArenaStats::ResetAccumulated() {
  const std::lock_guard lock(mutex_);
  ForEachStat([&](Field field, size_t type) {
    (arena_.*field)[type].reset_accumulated();
  });
}

DeviceStats ArenaStats::Joined(DeviceStats native) const {
  const std::lock_guard lock(mutex_);
  ForEachStat([&](Field field, size_t type) {
    Stat& stat = (native.*field)[type];
    const Stat& arena = (arena_.*field)[type];
    stat.current += arena.current;
    stat.allocated += arena.allocated;
    stat.freed += arena.freed;
    stat.peak = std::max({stat.current, stat.peak, (all_.*field)[type].peak});
  });
  for (const size_t type : {0, 2}) {
    native.inactive_split_bytes[type].current +=
        arena_.reserved_bytes[type].current - arena_.active_bytes[type].current;
  }
  return native;
}

}  // namespace ebbtide
