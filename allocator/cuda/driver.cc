#include "allocator/cuda/driver.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "allocator/cuda_api.h"
#include "profiler/function_finder.h"

namespace ebbtide {
namespace {

// The interface that all of these functions have had since.
constexpr unsigned kVersion = 11030;

}  // namespace

absl::StatusOr<const CudaDriver*> CudaDriver::Loaded() {
  static std::mutex mutex;
  static const CudaDriver* loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  const auto runtime = FindCudaRuntime();
  if (!runtime.ok()) return runtime.status();
  void* const get = dlsym(runtime->handle, "cudaGetDriverEntryPointByVersion");
  if (get == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        runtime->name, " has no cudaGetDriverEntryPointByVersion"));
  }
  FunctionFinder in([get](const char* name) -> void* {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        reinterpret_cast<decltype(&cudaGetDriverEntryPointByVersion)>(get)(
            name, &found, kVersion, cudaEnableDefault, &result);
    const bool is_found = result == cudaDriverEntryPointSuccess;
    return error == cudaSuccess && is_found ? found : nullptr;
  });
  CudaDriver driver = {};
  in.Find("cuDeviceGetAttribute", &driver.device_get_attribute);
  in.Find("cuGetErrorString", &driver.get_error_string);
  in.Find("cuMemGetAllocationGranularity",
          &driver.mem_get_allocation_granularity);
  in.Find("cuMemAddressReserve", &driver.mem_address_reserve);
  in.Find("cuMemCreate", &driver.mem_create);
  in.Find("cuMemRelease", &driver.mem_release);
  in.Find("cuMemMap", &driver.mem_map);
  in.Find("cuMemUnmap", &driver.mem_unmap);
  in.Find("cuMemSetAccess", &driver.mem_set_access);
  if (in.missing() != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the driver has no ", in.missing()));
  }
  return loaded = new CudaDriver(driver);
}

absl::Status DriverStatus(const CudaDriver& driver, CUresult result,
                          const char* call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* text = nullptr;
  if (driver.get_error_string(result, &text) != CUDA_SUCCESS) text = "unknown";
  return absl::Status(result == CUDA_ERROR_OUT_OF_MEMORY
                          ? absl::StatusCode::kResourceExhausted
                          : absl::StatusCode::kUnavailable,
                      absl::StrCat(call, ": ", text));
}

}  // namespace ebbtide
