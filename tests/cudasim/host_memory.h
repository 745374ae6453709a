// Page-locked host memory: which addresses are, and how many bytes.
#ifndef EBBTIDE_TESTS_CUDASIM_HOST_MEMORY_H_
#define EBBTIDE_TESTS_CUDASIM_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "tests/cudasim/error.h"

namespace cudasim {

// Not thread-safe: the simulator's lock is held around every call.
class HostMemory {
 public:
  Error Allocate(size_t size, std::optional<uint8_t> poison, void** address);
  Error Free(void* address);
  Error Register(void* address, size_t size);
  Error Unregister(void* address);
  bool IsPinned(const void* address) const;
  // Size of the block that begins at the address; 0 if none does.
  size_t SizeOf(const void* address) const;
  uint64_t bytes() const { return bytes_; }
  uint64_t peak() const { return peak_; }

 private:
  struct Range {
    size_t size;
    bool ours;  // allocated here, else only registered
  };
  void Add(void* address, Range range);
  Error Remove(void* address, bool ours, Error otherwise);

  std::map<const std::byte*, Range> ranges_;
  uint64_t bytes_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_HOST_MEMORY_H_
