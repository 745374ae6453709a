#include "tests/cudasim/heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cudasim {
namespace {

size_t Round(size_t size) {
  return (std::max<size_t>(size, 1) + kPageSize - 1) / kPageSize * kPageSize;
}

uintptr_t Number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

// NOLINTNEXTLINE(performance-no-int-to-ptr): addresses are our own numbers
void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

void* ReserveOrDie(size_t size) {
  void* const address =
      mmap(nullptr, size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    perror("cudasim: reserving address space");
    abort();
  }
  return address;
}

void MapOrDie(uintptr_t address, size_t size, int protection, int flags,
              int file, uint64_t offset) {
  if (mmap(Pointer(address), size, protection,
           flags | MAP_FIXED | MAP_NORESERVE, file,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    perror("cudasim: mapping device memory");
    abort();
  }
}

}  // namespace

Heap::Heap(const HeapOptions& options)
    : capacity_(options.capacity),
      poison_(options.poison),
      reserved_(Round(options.address_space) + kPageSize),
      program_side_(ReserveOrDie(reserved_)),
      shadow_side_(ReserveOrDie(reserved_)),
      arena_(Round(Number(program_side_))),
      shadow_arena_(Round(Number(shadow_side_))),
      file_(memfd_create("cudasim", MFD_CLOEXEC)),
      used_(options.devices, 0) {
  if (file_ < 0) {
    perror("cudasim: memfd_create");
    abort();
  }
}

Heap::~Heap() {
  munmap(program_side_, reserved_);
  munmap(shadow_side_, reserved_);
  close(file_);
}

Error Heap::Allocate(int device, size_t size, void** address) {
  const size_t rounded = Round(size);
  if (!Charge(device, rounded)) return Error::kMemoryAllocation;
  const uintptr_t begin = arena_ + addresses_.Take(rounded);
  const uint64_t offset = TakeFile(rounded);
  MapShadow(begin, rounded, offset);
  ranges_[begin] = {rounded, device, offset, 0};
  *address = Pointer(begin);
  if (poison_) memset(Bytes(*address), *poison_, rounded);
  return Error::kNone;
}

Error Heap::Free(void* address) {
  const auto found = ranges_.find(Number(address));
  if (found == ranges_.end() || found->second.handle != 0) {
    return Error::kInvalidValue;
  }
  const Range range = found->second;
  ranges_.erase(found);
  UnmapShadow(Number(address), range.size);
  GiveFile(range.file_offset, range.size);
  addresses_.Give(Number(address) - arena_, range.size);
  Uncharge(range.device, range.size);
  return Error::kNone;
}

Error Heap::Reserve(size_t size, void** address) {
  const size_t rounded = Round(size);
  const uintptr_t begin = arena_ + addresses_.Take(rounded);
  reservations_[begin] = rounded;
  *address = Pointer(begin);
  return Error::kNone;
}

Error Heap::EndReservation(void* address) {
  const auto found = reservations_.find(Number(address));
  if (found == reservations_.end()) return Error::kInvalidValue;
  addresses_.Give(found->first - arena_, found->second);
  reservations_.erase(found);
  return Error::kNone;
}

Error Heap::CreateHandle(int device, size_t size, uint64_t* handle) {
  const size_t rounded = Round(size);
  if (!Charge(device, rounded)) return Error::kMemoryAllocation;
  *handle = next_handle_++;
  handles_[*handle] = {rounded, device, TakeFile(rounded), 1};
  return Error::kNone;
}

Error Heap::ReleaseHandle(uint64_t handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return Error::kInvalidValue;
  Drop(found);
  return Error::kNone;
}

uint64_t Heap::RetainHandle(const void* address) {
  const auto range = Find(address);
  if (range == ranges_.end() || range->second.handle == 0) return 0;
  ++handles_.at(range->second.handle).holders;
  return range->second.handle;
}

Error Heap::Map(void* address, size_t size, size_t offset, uint64_t handle) {
  const auto found = handles_.find(handle);
  const bool ours = IsDevice(address) && Number(address) % kPageSize == 0;
  if (found == handles_.end() || !ours || Find(address) != ranges_.end() ||
      offset + size > found->second.size) {
    return Error::kInvalidValue;
  }
  Handle& held = found->second;
  ++held.holders;
  // Mapped a second time, it keeps its bytes.
  const bool is_fresh = std::none_of(
      ranges_.begin(), ranges_.end(),
      [&](const auto& range) { return range.second.handle == handle; });
  MapShadow(Number(address), size, held.file_offset + offset);
  ranges_[Number(address)] = {size, held.device, held.file_offset + offset,
                              handle};
  if (poison_ && is_fresh) memset(Bytes(address), *poison_, size);
  return Error::kNone;
}

Error Heap::Unmap(void* address, size_t size) {
  const uintptr_t end = Number(address) + size;
  for (uintptr_t begin = Number(address); begin < end;) {
    const auto found = ranges_.find(begin);
    if (found == ranges_.end() || found->second.handle == 0) {
      return Error::kInvalidValue;
    }
    const Range range = found->second;
    ranges_.erase(found);
    UnmapShadow(begin, range.size);
    Drop(handles_.find(range.handle));
    begin += range.size;
  }
  return Error::kNone;
}

bool Heap::IsDevice(const void* address) const {
  return Number(address) >= arena_ &&
         Number(address) < Number(program_side_) + reserved_;
}

bool Heap::Covers(const void* begin, size_t size) const {
  const uintptr_t end = Number(begin) + size;
  for (uintptr_t at = Number(begin); at < end;) {
    const auto range = Find(Pointer(at));
    if (range == ranges_.end()) return false;
    at = range->first + range->second.size;
  }
  return true;
}

int Heap::DeviceOf(const void* address) const {
  const auto range = Find(address);
  return range == ranges_.end() ? -1 : range->second.device;
}

bool Heap::IsMapped(const void* address) const {
  const auto range = Find(address);
  return range != ranges_.end() && range->second.handle != 0;
}

const void* Heap::BeginOf(const void* address) const {
  const auto range = Find(address);
  return range == ranges_.end() ? nullptr : Pointer(range->first);
}

size_t Heap::SizeOf(const void* address) const {
  const auto range = ranges_.find(Number(address));
  return range == ranges_.end() ? 0 : range->second.size;
}

std::byte* Heap::Bytes(const void* address) const {
  const uintptr_t at = Number(address);
  return static_cast<std::byte*>(
      Pointer(IsDevice(address) ? shadow_arena_ + (at - arena_) : at));
}

bool Heap::Charge(int device, size_t size) {
  if (used_[device] + size > capacity_) return false;
  used_[device] += size;
  total_ += size;
  peak_ = std::max(peak_, total_);
  ++allocations_;
  ++live_;
  return true;
}

void Heap::Uncharge(int device, size_t size) {
  used_[device] -= size;
  total_ -= size;
  --live_;
}

uint64_t Heap::TakeFile(size_t size) {
  const uint64_t offset = file_ranges_.Take(size);
  if (ftruncate(file_, static_cast<off_t>(file_ranges_.end())) != 0) {
    perror("cudasim: growing device memory");
    abort();
  }
  return offset;
}

// Also returns the pages to the system; the next holder finds zeros.
void Heap::GiveFile(uint64_t offset, size_t size) {
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(offset), static_cast<off_t>(size)) != 0) {
    perror("cudasim: returning device memory");
  }
  file_ranges_.Give(offset, size);
}

void Heap::MapShadow(uintptr_t address, size_t size, uint64_t file_offset) {
  MapOrDie(shadow_arena_ + (address - arena_), size, PROT_READ | PROT_WRITE,
           MAP_SHARED, file_, file_offset);
}

void Heap::UnmapShadow(uintptr_t address, size_t size) {
  MapOrDie(shadow_arena_ + (address - arena_), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void Heap::Drop(std::map<uint64_t, Handle>::iterator handle) {
  if (--handle->second.holders > 0) return;
  GiveFile(handle->second.file_offset, handle->second.size);
  Uncharge(handle->second.device, handle->second.size);
  handles_.erase(handle);
}

std::map<uintptr_t, Heap::Range>::const_iterator Heap::Find(
    const void* address) const {
  auto range = ranges_.upper_bound(Number(address));
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return Number(address) < range->first + range->second.size ? range
                                                             : ranges_.end();
}

}  // namespace cudasim
