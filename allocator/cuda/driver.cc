#include "allocator/cuda/driver.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "allocator/cuda_api.h"

namespace ebbtide {
namespace {

// The interface that all of these functions have had since.
constexpr unsigned kVersion = 11030;

class EntryPoints {
 public:
  using GetEntryPoint = decltype(&cudaGetDriverEntryPointByVersion);

  explicit EntryPoints(GetEntryPoint get) : get_(get) {}

  template <typename Function>
  void Find(const char* name, Function** function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        get_(name, &found, kVersion, cudaEnableDefault, &result);
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
      found = nullptr;
    }
    if (found == nullptr && missing_ == nullptr) missing_ = name;
    *function = reinterpret_cast<Function*>(found);
  }
  const char* missing() const { return missing_; }

 private:
  const GetEntryPoint get_;
  const char* missing_ = nullptr;
};

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
  EntryPoints in(reinterpret_cast<EntryPoints::GetEntryPoint>(get));
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
