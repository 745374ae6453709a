#include "allocator/device_books.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {

const DeviceBooks::Segment* DeviceBooks::SegmentOf(const void* block) const {
  const auto after = segments_.upper_bound(block);
  if (after == segments_.begin()) return nullptr;
  const auto found = std::prev(after);
  const auto* begin = static_cast<const char*>(found->first);
  if (block >= begin + Count(found->second.size)) return nullptr;
  return &found->second;
}

DeviceBooks::Segment* DeviceBooks::SegmentOf(const void* block) {
  return const_cast<Segment*>(std::as_const(*this).SegmentOf(block));
}

bool DeviceBooks::IsPrivate(const void* block) const {
  if (private_segments_ == 0) return false;  // as nearly always
  const std::lock_guard lock(mutex_);
  const Segment* const segment = SegmentOf(block);
  return segment != nullptr && segment->pool == Pool::kPrivate;
}

void DeviceBooks::OnAllocate(const void* block, Bytes size, Kind kind) {
  ledger_.OnAllocate(block, size, kind);
  const std::lock_guard lock(mutex_);
  Segment* const segment = SegmentOf(block);
  if (segment == nullptr || segment->blocks++ > 0) return;
  if (segment->pool == Pool::kCommon) idle_ -= segment->size;
}

void DeviceBooks::OnFree(const void* block) {
  if (ledger_.OnFree(block) == Bytes{0}) return;
  const std::lock_guard lock(mutex_);
  Segment* const segment = SegmentOf(block);
  if (segment == nullptr || --segment->blocks > 0) return;
  if (segment->pool == Pool::kCommon) idle_ += segment->size;
}

void DeviceBooks::Reserve(Bytes change) {
  reserved_ += change;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
}

void DeviceBooks::OnSegment(const void* segment, Bytes size, Pool pool) {
  const std::lock_guard lock(mutex_);
  segments_[segment] = {.size = size, .pool = pool};
  Reserve(size);
  if (pool == Pool::kCommon) idle_ += size;
  if (pool == Pool::kPrivate) ++private_segments_;
}

void DeviceBooks::OnSegmentFreed(const void* segment) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return;
  Reserve(Bytes{0} - found->second.size);
  if (found->second.pool == Pool::kCommon) idle_ -= found->second.size;
  if (found->second.pool == Pool::kPrivate) --private_segments_;
  segments_.erase(found);
}

void DeviceBooks::OnMapped(Bytes size) {
  const std::lock_guard lock(mutex_);
  mapped_ += size;
  Reserve(size);
}

void DeviceBooks::OnUnmapped(Bytes size) {
  const std::lock_guard lock(mutex_);
  mapped_ -= size;
  Reserve(Bytes{0} - size);
}

Bytes DeviceBooks::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

Bytes DeviceBooks::idle() const {
  const std::lock_guard lock(mutex_);
  if (mapped_ == Bytes{0}) return idle_;
  return std::max(Bytes{0}, reserved_ - ledger_.live());
}

Bytes DeviceBooks::ReservedPeak() const {
  const std::lock_guard lock(mutex_);
  return reserved_peak_;
}

void DeviceBooks::ResetPeak() {
  const std::lock_guard lock(mutex_);
  reserved_peak_ = reserved_;
}

}  // namespace ebbtide
