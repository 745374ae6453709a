#include "allocator/cuda/device_pages.h"

#include <algorithm>
#include <bit>

namespace ebbtide {
namespace {

CUmemAllocationProp PropertiesOf(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

CUdeviceptr Address(const char* at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

size_t Size(Bytes bytes) { return static_cast<size_t>(Count(bytes)); }

}  // namespace

absl::StatusOr<Bytes> DevicePages::PageFor(const CudaDriver& driver, int device,
                                           Bytes memory) {
  int is_supported = 0;
  absl::Status status = DriverStatus(
      driver,
      driver.device_get_attribute(
          &is_supported,
          CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
      "cuDeviceGetAttribute");
  if (!status.ok()) return status;
  if (is_supported == 0) {
    return absl::FailedPreconditionError(
        "the device has no virtual memory management");
  }
  const CUmemAllocationProp properties = PropertiesOf(device);
  size_t least = 0;
  status = DriverStatus(
      driver,
      driver.mem_get_allocation_granularity(
          &least, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
      "cuMemGetAllocationGranularity");
  if (!status.ok()) return status;
  const auto wanted =
      std::bit_ceil(static_cast<uint64_t>(Count(memory) / kMostPages));
  return Bytes{static_cast<int64_t>(std::max<uint64_t>(least, wanted))};
}

absl::StatusOr<char*> DevicePages::Reserve(Bytes size) {
  CUdeviceptr at = 0;
  const absl::Status status = DriverStatus(
      driver_, driver_.mem_address_reserve(&at, Size(size), Size(page_), 0, 0),
      "cuMemAddressReserve");
  if (!status.ok()) return status;
  return reinterpret_cast<char*>(at);
}

absl::StatusOr<uint64_t> DevicePages::Create() {
  const CudaScope scope(api_);
  const CUmemAllocationProp properties = PropertiesOf(devices_.front());
  CUmemGenericAllocationHandle page = 0;
  const absl::Status status = DriverStatus(
      driver_, driver_.mem_create(&page, Size(page_), &properties, 0),
      "cuMemCreate");
  if (!status.ok()) return status;
  return page;
}

// A page that cannot be released is lost to the process; nothing else depends
// on it.
void DevicePages::Release(uint64_t page) {
  const CudaScope scope(api_);
  driver_.mem_release(page);
}

absl::Status DevicePages::Map(char* at, absl::Span<const uint64_t> pages) {
  absl::Status mapped = MapAgain(at, pages);
  if (mapped.ok()) OnMapped(at, Bytes{std::ssize(pages) * Count(page_)});
  return mapped;
}

absl::Status DevicePages::Unmap(char* at, int64_t count) {
  absl::Status unmapped = UnmapAlias(at, count);
  if (unmapped.ok()) OnUnmapped(at, Bytes{count * Count(page_)});
  return unmapped;
}

absl::Status DevicePages::MapAgain(char* at, absl::Span<const uint64_t> pages) {
  const CudaScope scope(api_);
  absl::Status status;
  char* end = at;
  for (const uint64_t page : pages) {
    status = DriverStatus(
        driver_, driver_.mem_map(Address(end), Size(page_), 0, page, 0),
        "cuMemMap");
    if (!status.ok()) break;
    end += Count(page_);
  }
  if (status.ok()) status = Allow(at, Bytes{end - at});
  if (status.ok()) return status;
  while (end > at) {
    end -= Count(page_);
    UnmapAlias(end, 1).IgnoreError();
  }
  return status;
}

absl::Status DevicePages::UnmapAlias(char* at, int64_t count) {
  const CudaScope scope(api_);
  return DriverStatus(driver_,
                      driver_.mem_unmap(Address(at), count * Size(page_)),
                      "cuMemUnmap");
}

absl::Status DevicePages::Allow(char* begin, Bytes size) {
  std::vector<CUmemAccessDesc> access;
  for (const int device : devices_) {
    access.push_back({.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    access.back().location.id = device;
  }
  return DriverStatus(driver_,
                      driver_.mem_set_access(Address(begin), Size(size),
                                             access.data(), access.size()),
                      "cuMemSetAccess");
}

}  // namespace ebbtide
