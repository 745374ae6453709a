#include "allocator/device_books.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {
namespace {

const char* Address(const void* block) {
  return static_cast<const char*>(block);
}

// What the native allocator makes of a hole of a segment for large requests: a
// rest of at most 1 MiB stays with the block.
Bytes SizeInHole(Bytes size, Bytes hole, const CachedSegment& segment) {
  constexpr Bytes kLeastRest{1 << 20};
  if (segment.is_small || segment.is_arena) return size;
  return hole - size <= kLeastRest ? std::max(size, hole) : size;
}

// Its address and itself, or nullptr.
template <typename Segments>
auto* SegmentOf(Segments& segments, const void* block) {
  const auto after = segments.upper_bound(Address(block));
  const auto found =
      after == segments.begin() ? segments.end() : std::prev(after);
  const bool is_inside =
      found != segments.end() &&
      Address(block) < found->first + Count(found->second.size);
  return is_inside ? &*found : nullptr;
}

}  // namespace

CachedBlock* DeviceBooks::Find(const void* block) {
  auto* const segment = SegmentOf(segments_, block);
  if (segment == nullptr) return nullptr;
  const auto found = segment->second.blocks.find(Address(block));
  return found == segment->second.blocks.end() ? nullptr : &found->second;
}

bool DeviceBooks::IsPrivate(const void* block) const {
  if (private_segments_ == 0) return false;  // as nearly always
  const std::lock_guard lock(mutex_);
  const auto* const segment = SegmentOf(segments_, block);
  return segment != nullptr && segment->second.is_private;
}

void DeviceBooks::OnAllocate(const void* block, Bytes size, Kind kind) {
  ledger_.OnAllocate(block, size, kind);
  const std::lock_guard lock(mutex_);
  auto* const found = SegmentOf(segments_, block);
  if (found == nullptr) return;
  auto& [begin, segment] = *found;
  const auto next = segment.blocks.upper_bound(Address(block));
  const char* const end =
      next == segment.blocks.end() ? begin + Count(segment.size) : next->first;
  segment.blocks[Address(block)] = {
      .size = SizeInHole(size, Bytes{end - Address(block)}, segment)};
}

void DeviceBooks::OnLeave(const void* block) {
  const std::lock_guard lock(mutex_);
  if (CachedBlock* const found = Find(block)) found->is_leaving = true;
}

void DeviceBooks::OnFree(const void* block) {
  if (ledger_.OnFree(block) == Bytes{0}) return;
  const std::lock_guard lock(mutex_);
  auto* const segment = SegmentOf(segments_, block);
  if (segment != nullptr) segment->second.blocks.erase(Address(block));
}

void DeviceBooks::Reserve(Bytes change) {
  reserved_ += change;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
}

void DeviceBooks::OnSegment(const void* segment, CachedSegment what) {
  const std::lock_guard lock(mutex_);
  Reserve(what.size);
  if (what.is_private) ++private_segments_;
  segments_[Address(segment)] = std::move(what);
}

void DeviceBooks::OnSegmentFreed(const void* segment) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(Address(segment));
  if (found == segments_.end()) return;
  Reserve(Bytes{0} - found->second.size);
  if (found->second.is_private) --private_segments_;
  segments_.erase(found);
}

void DeviceBooks::SetArena(const void* address, bool is_arena) {
  const std::lock_guard lock(mutex_);
  auto* const segment = SegmentOf(segments_, address);
  if (segment != nullptr) segment->second.is_arena = is_arena;
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

Bytes DeviceBooks::Unreserved() const { return ledger_.budget() - reserved_; }

bool DeviceBooks::FindsRoom(CacheRequest request) const {
  const std::lock_guard lock(mutex_);
  if (mapped_ > Bytes{0}) return !ledger_.WouldExceed(request.segment);
  request.unreserved = Unreserved();
  return ebbtide::FindsRoom(segments_, request);
}

std::vector<int> DeviceBooks::CheapestToClear(
    CacheRequest request, absl::Span<const Clearable> clearables) const {
  const std::lock_guard lock(mutex_);
  if (mapped_ > Bytes{0}) return {};
  request.unreserved = Unreserved();
  return ebbtide::CheapestToClear(segments_, request, clearables);
}

Bytes DeviceBooks::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

Bytes DeviceBooks::idle() const {
  const std::lock_guard lock(mutex_);
  if (mapped_ > Bytes{0}) {
    return std::max(Bytes{0}, reserved_ - ledger_.live());
  }
  Bytes idle{};
  for (const auto& [begin, segment] : segments_) {
    if (!segment.is_private && !segment.is_arena && segment.blocks.empty())
      idle += segment.size;
  }
  return idle;
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
