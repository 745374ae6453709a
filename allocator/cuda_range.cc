#include "allocator/cuda_range.h"

#include <algorithm>

namespace ebbtide {
namespace {

// Of one handle, at most. Few, because each is mapped and given back by itself.
constexpr size_t kLargestPart = size_t{1} << 30;

// What is not given back is lost, and most failures pass.
template <typename GiveBack>
bool Twice(GiveBack give_back) {
  return give_back() == CUDA_SUCCESS || give_back() == CUDA_SUCCESS;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRange>> CudaRange::Map(
    const CudaDriver* driver, int device, Bytes size) {
  std::unique_ptr<CudaRange> range(new CudaRange(driver));
  const absl::Status filled = range->Fill(device, Count(size));
  if (!filled.ok()) return filled;
  return range;
}

absl::Status CudaRange::Fill(int device, size_t size) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  size_t grain = 0;
  absl::Status status =
      DriverStatus(driver_,
                   driver_.granularity(&grain, &properties,
                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                   "cuMemGetAllocationGranularity");
  if (!status.ok()) return status;
  const size_t rounded = (size + grain - 1) / grain * grain;
  status = DriverStatus(driver_,
                        driver_.address_reserve(&address_, rounded, 0, 0, 0),
                        "cuMemAddressReserve");
  if (!status.ok()) return status;
  reserved_ = rounded;
  const size_t part = kLargestPart / grain * grain;
  while (size_ < rounded) {
    status = Append(properties, std::min(part, rounded - size_));
    if (!status.ok()) return status;
  }
  const CUmemAccessDesc access = {.location = properties.location,
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return DriverStatus(driver_,
                      driver_.set_access(address_, reserved_, &access, 1),
                      "cuMemSetAccess");
}

absl::Status CudaRange::Append(const CUmemAllocationProp& properties,
                               size_t size) {
  CUmemGenericAllocationHandle handle = 0;
  absl::Status status = DriverStatus(
      driver_, driver_.create(&handle, size, &properties, 0), "cuMemCreate");
  if (!status.ok()) return status;
  status = DriverStatus(
      driver_, driver_.map(address_ + size_, size, 0, handle, 0), "cuMemMap");
  // Mapped memory lives until it is unmapped, without its handle.
  Twice([&] { return driver_.release(handle); });
  if (!status.ok()) return status;
  size_ += size;
  parts_.push_back(size);
  return absl::OkStatus();
}

CudaRange::~CudaRange() {
  CUdeviceptr part = address_;
  bool is_unmapped = true;
  for (const size_t size : parts_) {
    is_unmapped &= Twice([&] { return driver_.unmap(part, size); });
    part += size;
  }
  if (reserved_ == 0 || !is_unmapped) return;
  Twice([this] { return driver_.address_free(address_, reserved_); });
}

}  // namespace ebbtide
