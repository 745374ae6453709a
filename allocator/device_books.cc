#include "allocator/device_books.h"

#include <iterator>

namespace ebbtide {
namespace {

const char* Address(const void* block) {
  return static_cast<const char*>(block);
}

}  // namespace

bool DeviceBooks::IsPrivate(const void* block) const {
  if (private_segments_ == 0) return false;  // as nearly always
  const std::lock_guard lock(mutex_);
  const auto after = segments_.upper_bound(Address(block));
  if (after == segments_.begin()) return false;
  const auto& [begin, segment] = *std::prev(after);
  return segment.is_private && Address(block) < begin + Count(segment.size);
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

}  // namespace ebbtide
