// Simulated device memory, in pages of 2 MiB as drivers hand it out.
//
// An address given to the program is never mapped: a host that dereferences it
// dies with SIGSEGV, as on a discrete GPU. The bytes lie at a fixed distance,
// in a shadow that only the simulator reads and writes. Blocks come whole
// (Allocate) or, for expandable segments, as address space, handles and
// mappings between them.
//
// Not thread-safe: the simulator's lock is held around every call.
#ifndef EBBTIDE_TESTS_CUDASIM_HEAP_H_
#define EBBTIDE_TESTS_CUDASIM_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/cudasim/error.h"
#include "tests/cudasim/free_ranges.h"

namespace cudasim {

inline constexpr size_t kPageSize = size_t{2} << 20;

struct HeapOptions {
  int devices = 1;
  uint64_t capacity = uint64_t{4} << 30;  // capacity of each device
  // Reserved, never touched. 4 TiB leaves room for expandable segments, each of
  // which reserves more than a whole device.
  uint64_t address_space = uint64_t{1} << 42;
  std::optional<uint8_t> poison;  // byte that fresh memory is filled with
};

class Heap {
 public:
  // Ends the process where the address space cannot be had.
  explicit Heap(const HeapOptions& options);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Error Allocate(int device, size_t size, void** address);
  // Only what Allocate returned.
  Error Free(void* address);

  // The pieces of an expandable segment. A handle lives while it is held or
  // mapped; all sizes are rounded up to pages.
  Error Reserve(size_t size, void** address);
  Error EndReservation(void* address);
  Error CreateHandle(int device, size_t size, uint64_t* handle);
  Error ReleaseHandle(uint64_t handle);
  // The handle mapped at the address, held once more; 0 if there is none.
  uint64_t RetainHandle(const void* address);
  Error Map(void* address, size_t size, size_t offset, uint64_t handle);
  Error Unmap(void* address, size_t size);

  // True if the address is the device's, allocated or not.
  bool IsDevice(const void* address) const;
  // True if a handle is mapped at the address.
  bool IsMapped(const void* address) const;
  // True if all of it is allocated; neighbouring mappings count as one.
  bool Covers(const void* begin, size_t size) const;
  // The device that holds the allocated address, or -1.
  int DeviceOf(const void* address) const;
  // Where what holds the allocated address begins, or nullptr.
  const void* BeginOf(const void* address) const;
  // The size of what begins at the address, or 0.
  size_t SizeOf(const void* address) const;
  // Where the bytes of a device address lie; a host address lies where it is.
  std::byte* Bytes(const void* address) const;

  void set_capacity(uint64_t bytes) { capacity_ = bytes; }
  void set_poison(std::optional<uint8_t> byte) { poison_ = byte; }
  std::optional<uint8_t> poison() const { return poison_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used(int device) const { return used_[device]; }
  uint64_t total() const { return total_; }
  uint64_t peak() const { return peak_; }
  uint64_t allocations() const { return allocations_; }
  uint64_t live() const { return live_; }
  uint64_t reservations() const { return reservations_.size(); }

 private:
  struct Range {
    size_t size;
    int device;
    uint64_t file_offset;
    uint64_t handle;  // 0: a block of its own
  };
  struct Handle {
    size_t size;
    int device;
    uint64_t file_offset;
    int holders;
  };

  bool Charge(int device, size_t size);
  void Uncharge(int device, size_t size);
  uint64_t TakeFile(size_t size);
  void GiveFile(uint64_t offset, size_t size);
  void MapShadow(uintptr_t address, size_t size, uint64_t file_offset);
  void UnmapShadow(uintptr_t address, size_t size);
  void Drop(std::map<uint64_t, Handle>::iterator handle);
  std::map<uintptr_t, Range>::const_iterator Find(const void* address) const;

  uint64_t capacity_;
  std::optional<uint8_t> poison_;
  size_t reserved_;
  void* program_side_;
  void* shadow_side_;
  uintptr_t arena_;         // first page of the program's side
  uintptr_t shadow_arena_;  // and of the shadow
  int file_;                // backs the shadow, so that a handle can move
  FreeRanges addresses_;
  FreeRanges file_ranges_;
  std::map<uintptr_t, Range> ranges_;  // allocated, by address
  std::map<uintptr_t, size_t> reservations_;
  std::map<uint64_t, Handle> handles_;
  uint64_t next_handle_ = 1;
  std::vector<uint64_t> used_;  // by device
  uint64_t total_ = 0;
  uint64_t peak_ = 0;
  uint64_t allocations_ = 0;
  uint64_t live_ = 0;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_HEAP_H_
