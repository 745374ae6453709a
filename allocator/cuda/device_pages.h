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
#include "allocator/arena/page_system.h"
#include "allocator/cuda_api.h"
#include "planner/units.h"

namespace ebbtide {

class DevicePages : public PageSystem {
 public:
  // The smallest page that the driver maps, or, where `memory` would be more
  // than kMostPages of those, a larger one: calls take time per page.
  // FailedPrecondition where the device cannot map memory.
  static constexpr int64_t kMostPages = 4096;
  static absl::StatusOr<Bytes> PageFor(const CudaDriver& driver, int device,
                                       Bytes memory);

  // `api` and `driver` outlive this.
  DevicePages(const CudaApi* api, const CudaDriver* driver, int device,
              Bytes page)
      : api_(*api), driver_(*driver), devices_({device}), page_(page) {}

  Bytes page() const override { return page_; }
  absl::StatusOr<char*> Reserve(Bytes size) override;
  absl::StatusOr<uint64_t> Create() override;
  void Release(uint64_t page) override;
  absl::Status Map(char* at, absl::Span<const uint64_t> pages) override;
  absl::Status Unmap(char* at, int64_t count) override;
  absl::Status MapAgain(char* at, absl::Span<const uint64_t> pages) override;
  absl::Status UnmapAlias(char* at, int64_t count) override;

  // The peer may use what is mapped from now on. Existing mappings have to be
  // passed to Allow.
  void AddPeer(int device) { devices_.push_back(device); }
  // All devices may use the range.
  absl::Status Allow(char* begin, Bytes size);

 protected:
  // Pages have been mapped, or unmapped, that are so nowhere else.
  virtual void OnMapped(char* begin, Bytes size) = 0;
  virtual void OnUnmapped(char* begin, Bytes size) = 0;

 private:
  const CudaApi& api_;
  const CudaDriver& driver_;
  std::vector<int> devices_;  // the first one's are the pages
  const Bytes page_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_DEVICE_PAGES_H_
