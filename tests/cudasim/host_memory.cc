#include "tests/cudasim/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace cudasim {
namespace {
constexpr size_t kHostPage = 4096;
}  // namespace

Error HostMemory::Allocate(size_t size, std::optional<uint8_t> poison,
                           void** address) {
  const size_t rounded =
      (std::max<size_t>(size, 1) + kHostPage - 1) / kHostPage * kHostPage;
  // It may exceed the machine's memory as long as it is not written.
  void* const block = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return Error::kMemoryAllocation;
  if (poison) memset(block, *poison, rounded);
  Add(block, {rounded, true});
  *address = block;
  return Error::kNone;
}

Error HostMemory::Free(void* address) {
  const size_t size = SizeOf(address);
  const Error error = Remove(address, true, Error::kInvalidValue);
  if (error == Error::kNone) munmap(address, size);
  return error;
}

Error HostMemory::Register(void* address, size_t size) {
  if (IsPinned(address)) return Error::kHostMemoryAlreadyRegistered;
  Add(address, {size, false});
  return Error::kNone;
}

Error HostMemory::Unregister(void* address) {
  return Remove(address, false, Error::kHostMemoryNotRegistered);
}

bool HostMemory::IsPinned(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return false;
  --range;
  return at < range->first + range->second.size;
}

size_t HostMemory::SizeOf(const void* address) const {
  const auto range = ranges_.find(static_cast<const std::byte*>(address));
  return range == ranges_.end() ? 0 : range->second.size;
}

void HostMemory::Add(void* address, Range range) {
  ranges_[static_cast<const std::byte*>(address)] = range;
  bytes_ += range.size;
  peak_ = std::max(peak_, bytes_);
}

Error HostMemory::Remove(void* address, bool ours, Error otherwise) {
  const auto range = ranges_.find(static_cast<const std::byte*>(address));
  if (range == ranges_.end() || range->second.ours != ours) return otherwise;
  bytes_ -= range->second.size;
  ranges_.erase(range);
  return Error::kNone;
}

}  // namespace cudasim
