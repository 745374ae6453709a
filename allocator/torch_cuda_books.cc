#include "allocator/torch_cuda_books.h"

#include <array>

#include "allocator/allocation_kind.h"
#include "planner/units.h"

namespace ebbtide {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

Bytes RoundUp(size_t size) {
  return Bytes{static_cast<int64_t>((size + kCudaRounding - 1) / kCudaRounding *
                                    kCudaRounding)};
}

DeviceBooks::Pool PoolOf(const c10::MempoolId_t& id) {
  return id == c10::MempoolId_t{0, 0} ? DeviceBooks::Pool::kCommon
                                      : DeviceBooks::Pool::kPrivate;
}

}  // namespace

DeviceBooks& BooksOf(c10::DeviceIndex device) {
  static auto& books = *new std::array<DeviceBooks, kMaxCudaDevices>;
  return books[device];
}

void NoteTrace(const TraceEntry& entry) {
  DeviceBooks& books = BooksOf(entry.device_);
  const auto* address = reinterpret_cast<const void*>(entry.addr_);
  // Of blocks it tells what was asked for.
  const Bytes size = RoundUp(entry.size_);
  const auto pool = PoolOf(entry.mempool_);
  switch (entry.action_) {
    case TraceEntry::ALLOC:
      return books.OnAllocate(address, size, AllocationKind::Current());
    case TraceEntry::FREE_COMPLETED:
      return books.OnFree(address);
    case TraceEntry::SEGMENT_ALLOC:
      return books.OnSegment(address, size, pool);
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
                    PoolOf(segment.owner_private_pool_id));
  }
  for (const auto& block : segment.blocks) {
    if (block.active) {
      books.OnAllocate(reinterpret_cast<const void*>(address),
                       RoundUp(block.requested_size), Kind::kOther);
    }
    address += block.size;
  }
}

}  // namespace ebbtide
