// A range of a device's addresses with memory behind it, mapped once.
//
// The memory is of few large handles, so that the range has one address from
// its begin to its end whatever is free on the device, and nothing is mapped
// while a step runs. It cannot leave the process: neither handles for other
// processes nor registration with a network are asked for.
#ifndef EBBTIDE_ALLOCATOR_CUDA_RANGE_H_
#define EBBTIDE_ALLOCATOR_CUDA_RANGE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/cuda_driver.h"
#include "planner/units.h"

namespace ebbtide {

class CudaRange {
 public:
  // At least `size` bytes (positive) on the device. ResourceExhausted where it
  // has not so many; whatever fails, nothing is left behind. `driver` lives for
  // ever.
  static absl::StatusOr<std::unique_ptr<CudaRange>> Map(
      const CudaDriver* driver, int device, Bytes size);

  // All that was queued on the bytes has to be over. What the driver does not
  // take back stays mapped.
  ~CudaRange();
  CudaRange(const CudaRange&) = delete;
  CudaRange& operator=(const CudaRange&) = delete;

  char* base() const { return reinterpret_cast<char*>(address_); }
  Bytes size() const { return Bytes{static_cast<int64_t>(size_)}; }

 private:
  explicit CudaRange(const CudaDriver* driver) : driver_(*driver) {}

  absl::Status Fill(int device, size_t size);
  absl::Status Append(const CUmemAllocationProp& properties, size_t size);

  const CudaDriver& driver_;
  CUdeviceptr address_ = 0;
  size_t reserved_ = 0;
  size_t size_ = 0;            // mapped so far
  std::vector<size_t> parts_;  // each of one handle
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_RANGE_H_
