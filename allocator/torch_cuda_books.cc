#include "allocator/torch_cuda_books.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <array>

#include "allocator/allocation_kind.h"
#include "planner/units.h"

namespace ebbtide {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

// Sizes of the native allocator (c10/core/AllocatorConfig.h): what it rounds a
// request up to, and what it reserves for it where nothing cached fits.
constexpr size_t kRounding = 512;
constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddleRequest = size_t{10} << 20;

Bytes RoundUpTo(size_t size, size_t to) {
  return Bytes{static_cast<int64_t>((size + to - 1) / to * to)};
}

bool IsPrivate(const c10::MempoolId_t& pool) {
  return pool != c10::MempoolId_t{0, 0};
}

}  // namespace

Bytes RoundUp(size_t size) { return RoundUpTo(size, kRounding); }

bool IsSmall(size_t size) { return size <= kSmallRequest; }

Bytes SegmentFor(size_t size) {
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  if (IsSmall(size)) return Bytes{int64_t{kSmallSegment}};
  if (size >= kMiddleRequest) return RoundUpTo(size, kSmallSegment);
  return Bytes{static_cast<int64_t>(Config::large_segment_size())};
}

DeviceBooks& BooksOf(c10::DeviceIndex device) {
  static auto& books = *new std::array<DeviceBooks, kMaxCudaDevices>;
  return books[device];
}

void Note(c10::DeviceIndex device, TraceEntry::Action action,
          const void* address, size_t asked, c10::MempoolId_t pool) {
  DeviceBooks& books = BooksOf(device);
  const Bytes size = RoundUp(asked);
  switch (action) {
    case TraceEntry::ALLOC:
      books.ledger().OnAllocate(address, size, AllocationKind::Current());
      return;
    case TraceEntry::FREE_COMPLETED:
      books.ledger().OnFree(address);
      return;
    case TraceEntry::SEGMENT_ALLOC:
      return books.OnSegment(address, size, IsPrivate(pool));
    case TraceEntry::SEGMENT_FREE:
      return books.OnSegmentFreed(address);
    case TraceEntry::SEGMENT_MAP:
      return books.OnMapped(size);
    case TraceEntry::SEGMENT_UNMAP:
      return books.OnUnmapped(size);
    default:
      return;
  }
}

void NoteBefore(const c10::CachingDeviceAllocator::SegmentInfo& segment) {
  DeviceBooks& books = BooksOf(segment.device);
  size_t address = segment.address;
  const Bytes size{static_cast<int64_t>(segment.total_size)};
  if (segment.is_expandable) {
    books.OnMapped(size);
  } else {
    books.OnSegment(reinterpret_cast<const void*>(address), size,
                    IsPrivate(segment.owner_private_pool_id));
  }
  for (const auto& block : segment.blocks) {
    if (block.active) {
      books.ledger().OnAllocate(reinterpret_cast<const void*>(address),
                                RoundUp(block.requested_size), Kind::kOther);
    }
    address += block.size;
  }
}

}  // namespace ebbtide
