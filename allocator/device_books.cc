#include "allocator/device_books.h"

#include <algorithm>
#include <iterator>

namespace ebbtide {
namespace {

const char* Address(const void* block) {
  return static_cast<const char*>(block);
}

}  // namespace

bool DeviceBooks::IsInArena(const void* address) const {
  const char* const begin = arena_begin_;
  return begin != nullptr && Address(address) >= begin &&
         Address(address) < arena_end_;
}

void DeviceBooks::SetArena(const void* begin, const void* end) {
  arena_end_ = Address(end);
  arena_begin_ = Address(begin);
}

bool DeviceBooks::IsPrivate(const void* block) const {
  if (private_segments_ == 0) return false;  // as nearly always
  const std::lock_guard lock(mutex_);
  const auto after = segments_.upper_bound(Address(block));
  if (after == segments_.begin()) return false;
  const auto& [begin, segment] = *std::prev(after);
  return segment.is_private && Address(block) < begin + Count(segment.size);
}

void DeviceBooks::OnAllocate(const void* block, Bytes size, Kind kind) {
  ledger_.OnAllocate(block, size, kind);
  if (IsInArena(block)) arena_alive_ += Count(size);
}

void DeviceBooks::OnFree(const void* block) {
  const Bytes size = ledger_.OnFree(block);
  if (IsInArena(block)) arena_alive_ -= Count(size);
}

void DeviceBooks::Reserve(int64_t change) {
  const int64_t now = reserved_ += change;
  int64_t peak = reserved_peak_;
  while (peak < now && !reserved_peak_.compare_exchange_weak(peak, now)) {
  }
}

void DeviceBooks::OnSegment(const void* segment, Bytes size, bool is_private) {
  const std::lock_guard lock(mutex_);
  Reserve(Count(size));
  if (is_private) ++private_segments_;
  segments_[Address(segment)] = {.size = size, .is_private = is_private};
}

void DeviceBooks::OnSegmentFreed(const void* segment) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(Address(segment));
  if (found == segments_.end()) return;
  Reserve(-Count(found->second.size));
  if (found->second.is_private) --private_segments_;
  segments_.erase(found);
}

void DeviceBooks::OnMapped(const void* at, Bytes size) {
  Reserve(Count(size));
  if (IsInArena(at)) arena_mapped_ += Count(size);
}

void DeviceBooks::OnUnmapped(const void* at, Bytes size) {
  Reserve(-Count(size));
  if (IsInArena(at)) arena_mapped_ -= Count(size);
}

Bytes DeviceBooks::NativeIdle() const {
  const int64_t native_reserved = reserved_ - arena_mapped_;
  const int64_t native_alive = Count(ledger_.live()) - arena_alive_;
  return Bytes{std::max<int64_t>(0, native_reserved - native_alive)};
}

}  // namespace ebbtide
