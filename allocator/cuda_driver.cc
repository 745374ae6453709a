#include "allocator/cuda_driver.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "allocator/cuda_api.h"

namespace ebbtide {
namespace {

// The versions of the functions that the types above are of.
constexpr unsigned kVersion = 12000;

using GetEntryPoint = decltype(&cudaGetDriverEntryPointByVersion);

// Finds functions and remembers the first that is missing.
class Finder {
 public:
  explicit Finder(GetEntryPoint get) : get_(get) {}

  template <typename Function>
  void Find(const char* name, Function** function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        get_(name, &found, kVersion, cudaEnableDefault, &answer);
    const bool is_there =
        error == cudaSuccess && answer == cudaDriverEntryPointSuccess;
    if (!is_there && missing_ == nullptr) missing_ = name;
    *function = reinterpret_cast<Function*>(is_there ? found : nullptr);
  }
  const char* missing() const { return missing_; }

 private:
  const GetEntryPoint get_;
  const char* missing_ = nullptr;
};

const char* FindAll(GetEntryPoint get, CudaDriver* driver) {
  Finder by(get);
  by.Find("cuMemGetAllocationGranularity", &driver->granularity);
  by.Find("cuMemAddressReserve", &driver->address_reserve);
  by.Find("cuMemAddressFree", &driver->address_free);
  by.Find("cuMemCreate", &driver->create);
  by.Find("cuMemRelease", &driver->release);
  by.Find("cuMemMap", &driver->map);
  by.Find("cuMemUnmap", &driver->unmap);
  by.Find("cuMemSetAccess", &driver->set_access);
  by.Find("cuGetErrorString", &driver->get_error_string);
  return by.missing();
}

}  // namespace

absl::StatusOr<const CudaDriver*> CudaDriver::Loaded() {
  static std::mutex mutex;
  static const CudaDriver* loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  const auto runtime = FindCudaRuntime();
  if (!runtime.ok()) return runtime.status();
  const auto get = reinterpret_cast<GetEntryPoint>(
      dlsym(runtime->handle, "cudaGetDriverEntryPointByVersion"));
  if (get == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        runtime->name, " has no cudaGetDriverEntryPointByVersion"));
  }
  CudaDriver driver = {};
  if (const char* missing = FindAll(get, &driver)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CUDA driver has no ", missing));
  }
  return loaded = new CudaDriver(driver);
}

absl::Status DriverStatus(const CudaDriver& driver, CUresult result,
                          const char* call) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* text = nullptr;
  driver.get_error_string(result, &text);
  const std::string message =
      absl::StrCat(call, ": ", text == nullptr ? "unknown error" : text, " (",
                   static_cast<int>(result), ")");
  return result == CUDA_ERROR_OUT_OF_MEMORY
             ? absl::ResourceExhaustedError(message)
             : absl::UnavailableError(message);
}

}  // namespace ebbtide
