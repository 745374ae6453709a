// The functions of the CUDA driver that map physical memory to addresses, found
// through the runtime that PyTorch has loaded.
//
// Thread-safe where the driver is. Not to be used in a child of fork.
#ifndef EBBTIDE_ALLOCATOR_CUDA_DRIVER_H_
#define EBBTIDE_ALLOCATOR_CUDA_DRIVER_H_

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebbtide {

// Each member is the function of that name, as CUDA documents it.
struct CudaDriver {
  // Valid for ever. FailedPrecondition without a runtime, or if the driver has
  // not all of them.
  static absl::StatusOr<const CudaDriver*> Loaded();

  decltype(&cuDeviceGetAttribute) device_get_attribute;
  decltype(&cuGetErrorString) get_error_string;
  decltype(&cuMemGetAllocationGranularity) mem_get_allocation_granularity;
  decltype(&cuMemAddressReserve) mem_address_reserve;
  decltype(&cuMemCreate) mem_create;
  decltype(&cuMemRelease) mem_release;
  decltype(&cuMemMap) mem_map;
  decltype(&cuMemUnmap) mem_unmap;
  decltype(&cuMemSetAccess) mem_set_access;
};

// The result of `call`, made just now. ResourceExhausted for memory,
// Unavailable for every other error.
absl::Status DriverStatus(const CudaDriver& driver, CUresult result,
                          const char* call);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_DRIVER_H_
