// The functions of the CUDA driver that map memory to addresses, found as the
// runtime in the process finds them (allocator/cuda_api.h).
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
  // They stay valid for ever. FailedPrecondition as FindCudaRuntime, or if a
  // function is missing.
  static absl::StatusOr<const CudaDriver*> Loaded();

  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) address_reserve;
  decltype(&cuMemAddressFree) address_free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuGetErrorString) get_error_string;
};

// ResourceExhausted where the device has no memory, else Unavailable; names the
// call.
absl::Status DriverStatus(const CudaDriver& driver, CUresult result,
                          const char* call);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_DRIVER_H_
