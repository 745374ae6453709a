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
auto* FindSegment(Segments& segments, const void* block) {
  const auto after = segments.upper_bound(Address(block));
  const auto found =
      after == segments.begin() ? segments.end() : std::prev(after);
  const bool is_inside =
      found != segments.end() &&
      Address(block) < found->first + Count(found->second.size);
  return is_inside ? &*found : nullptr;
}

// What a new block of the segment has, of a request of so many bytes.
Bytes SizeInSegment(const CachedSegments::value_type& found, const void* block,
                    Bytes size) {
  const auto& [begin, segment] = found;
  const auto next = segment.blocks.upper_bound(Address(block));
  const char* const end =
      next == segment.blocks.end() ? begin + Count(segment.size) : next->first;
  return SizeInHole(size, Bytes{end - Address(block)}, segment);
}

}  // namespace

// What the block is told of in.
CachedSegments::value_type* DeviceBooks::SegmentOf(const void* block) {
  auto* const arena = FindSegment(memory_.arenas, block);
  return arena != nullptr ? arena : FindSegment(memory_.segments, block);
}

CachedBlock* DeviceBooks::Find(const void* block) {
  auto* const segment = SegmentOf(block);
  if (segment == nullptr) return nullptr;
  const auto found = segment->second.blocks.find(Address(block));
  return found == segment->second.blocks.end() ? nullptr : &found->second;
}

bool DeviceBooks::IsPrivate(const void* block) const {
  if (private_segments_ == 0) return false;  // as nearly always
  const std::lock_guard lock(mutex_);
  const auto* const segment = FindSegment(memory_.segments, block);
  return segment != nullptr && segment->second.is_private;
}

void DeviceBooks::OnAllocate(const void* block, Bytes size, Kind kind) {
  ledger_.OnAllocate(block, size, kind);
  if (!knows_places_) return;
  const std::lock_guard lock(mutex_);
  auto* const found = SegmentOf(block);
  if (found == nullptr) return;
  found->second.blocks[Address(block)] = {
      .size = SizeInSegment(*found, block, size)};
}

void DeviceBooks::OnLeave(const void* block) {
  if (!knows_places_) return;
  const std::lock_guard lock(mutex_);
  if (CachedBlock* const found = Find(block)) found->is_leaving = true;
}

void DeviceBooks::OnFree(const void* block) {
  if (ledger_.OnFree(block) == Bytes{0} || !knows_places_) return;
  const std::lock_guard lock(mutex_);
  auto* const segment = SegmentOf(block);
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
  memory_.segments[Address(segment)] = std::move(what);
}

void DeviceBooks::OnSegmentFreed(const void* segment) {
  const std::lock_guard lock(mutex_);
  const auto found = memory_.segments.find(Address(segment));
  if (found == memory_.segments.end()) return;
  Reserve(Bytes{0} - found->second.size);
  if (found->second.is_private) --private_segments_;
  memory_.segments.erase(found);
}

Bytes DeviceBooks::AddArena(const void* block, Bytes size) {
  const std::lock_guard lock(mutex_);
  auto* const found = FindSegment(memory_.segments, block);
  if (found == nullptr) return size;
  const Bytes whole = SizeInSegment(*found, block, size);
  found->second.blocks[Address(block)] = {.size = whole, .is_arena = true};
  memory_.arenas[Address(block)] = {.size = whole, .is_arena = true};
  return whole;
}

void DeviceBooks::RemoveArena(const void* address) {
  const std::lock_guard lock(mutex_);
  auto* const segment = FindSegment(memory_.segments, address);
  if (segment != nullptr) segment->second.blocks.erase(Address(address));
  memory_.arenas.erase(Address(address));
}

void DeviceBooks::ForgetPlaces() {
  const std::lock_guard lock(mutex_);
  knows_places_ = false;
  for (auto& [begin, segment] : memory_.segments) segment.blocks.clear();
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
  if (IsExpandable()) return !ledger_.WouldExceed(request.segment);
  request.unreserved = Unreserved();
  return ebbtide::FindsRoom(memory_, request);
}

std::vector<int> DeviceBooks::CheapestToClear(
    CacheRequest request, absl::Span<const Clearable> clearables) const {
  const std::lock_guard lock(mutex_);
  if (IsExpandable()) return {};
  request.unreserved = Unreserved();
  return ebbtide::CheapestToClear(memory_, request, clearables);
}

std::vector<DeviceBooks::Alive> DeviceBooks::Largest(size_t count) const {
  std::vector<Alive> all;
  if (!knows_places_) {
    for (const Ledger::Block& block : ledger_.Largest(count)) {
      all.push_back({.block = block.address, .size = block.bytes});
    }
    return all;
  }
  const std::lock_guard lock(mutex_);
  for (const auto* segments : {&memory_.segments, &memory_.arenas}) {
    for (const auto& [begin, segment] : *segments) {
      for (const auto& [block, what] : segment.blocks) {
        if (what.is_leaving || what.is_arena) continue;
        all.push_back({.block = block, .size = what.size});
      }
    }
  }
  const size_t kept = std::min(count, all.size());
  std::partial_sort(
      all.begin(), all.begin() + static_cast<int64_t>(kept), all.end(),
      [](const Alive& a, const Alive& b) { return a.size > b.size; });
  all.resize(kept);
  return all;
}

Bytes DeviceBooks::LargestSegment() const {
  const std::lock_guard lock(mutex_);
  Bytes largest{};
  for (const auto& [begin, segment] : memory_.segments) {
    if (!segment.is_private) largest = std::max(largest, segment.size);
  }
  return largest;
}

Bytes DeviceBooks::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

Bytes DeviceBooks::idle() const {
  const std::lock_guard lock(mutex_);
  if (IsExpandable()) {
    return std::max(Bytes{0}, reserved_ - ledger_.live());
  }
  Bytes idle{};
  for (const auto& [begin, segment] : memory_.segments) {
    if (!segment.is_private && segment.blocks.empty()) idle += segment.size;
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
