// `DevicePages` are the pages of a CUDA device: physical memory that the driver
// creates and maps, without a budget. Those that are mapped may be used by the
// device itself and by its peers.
//
// Not thread-safe, but for page().
#ifndef EBBTIDE_ALLOCATOR_CUDA_DEVICE_PAGES_H_
#define EBBTIDE_ALLOCATOR_CUDA_DEVICE_PAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/cuda/driver.h"
#include "planner/units.h"

namespace ebbtide {

class DevicePages {
 public:
  // A page is the smallest that the driver maps, or, where `memory` would be
  // more than kMostPages of those, larger: calls take time per page.
  // FailedPrecondition where the device cannot map memory. `driver` outlives
  // this.
  static constexpr int64_t kMostPages = 4096;
  static absl::StatusOr<DevicePages> Make(const CudaDriver* driver, int device,
                                          Bytes memory);

  // As the functions of PageSystem.
  Bytes page() const { return page_; }
  absl::StatusOr<char*> Reserve(Bytes size);
  absl::StatusOr<uint64_t> Create();
  void Release(uint64_t page);
  absl::Status Map(char* at, absl::Span<const uint64_t> pages);
  absl::Status Unmap(char* at, int64_t count);

  // The peer may use what is mapped from now on. What is mapped already has to
  // be named to Allow.
  void AddPeer(int device) { devices_.push_back(device); }
  // All devices may use the range.
  absl::Status Allow(char* begin, Bytes size);

 private:
  DevicePages(const CudaDriver* driver, int device)
      : driver_(driver), device_(device), devices_({device}) {}

  const CudaDriver* driver_;
  int device_;
  std::vector<int> devices_;
  Bytes page_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_DEVICE_PAGES_H_
