#include "allocator/cuda_api.h"

#include <dlfcn.h>

#include <mutex>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "profiler/function_finder.h"

namespace ebbtide {
namespace {

// The interface that all functions of the driver have had since.
constexpr unsigned kDriverVersion = 11030;

struct CudaRuntimeLibrary {
  void* handle;
  const char* name;
};
absl::StatusOr<CudaRuntimeLibrary> FindCudaRuntime() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) return CudaRuntimeLibrary{library, name};
  }
  return absl::FailedPreconditionError(
      "no CUDA runtime is loaded (libcudart.so.13 or libcudart.so.12)");
}

// The functions themselves, once they have been found.
template <typename Table>
Table& Found() {
  static auto& found = *new Table{};
  return found;
}

bool HasFailed(cudaError_t result) {
  return result != cudaSuccess && result != cudaErrorNotReady;
}
bool HasFailed(CUresult result) { return result != CUDA_SUCCESS; }

void Forget(cudaError_t error) {
  const CudaApi& runtime = Found<CudaApi>();
  if (runtime.peek_at_last_error() == error) runtime.get_last_error();
}
void Forget(CUresult /*error*/) {}

// Calls the function, and where it fails once more.
template <auto kFunction>
struct Again;
template <typename Table, typename Result, typename... Arguments,
          Result (*Table::*kFunction)(Arguments...)>
struct Again<kFunction> {
  static Result Call(Arguments... arguments) {
    const Result first = (Found<Table>().*kFunction)(arguments...);
    if (!HasFailed(first)) return first;
    Forget(first);
    return (Found<Table>().*kFunction)(arguments...);
  }
};

// For the lists of functions: fills one table, and then the other.
#define EBBTIDE_FIND(member, function) in.Find(#function, &api.member);
#define EBBTIDE_ONCE(member, function)
#define EBBTIDE_AGAIN(member, function) \
  persistent->member = &Again<&std::decay_t<decltype(api)>::member>::Call;

// A scope of this thread is open: those inside it need not exchange the mode.
thread_local bool is_relaxed = false;

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      return absl::StatusCode::kFailedPrecondition;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::StatusOr<const CudaApi*> CudaApi::Loaded() {
  static std::mutex mutex;
  static const CudaApi* loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  const auto runtime = FindCudaRuntime();
  if (!runtime.ok()) return runtime.status();
  CudaApi& api = Found<CudaApi>();
  FunctionFinder in(runtime->handle);
  EBBTIDE_CUDA_FUNCTIONS(EBBTIDE_FIND, EBBTIDE_FIND)
  in.Find("cudaMalloc", &api.malloc);
  in.Find("cudaMemcpyAsync", &api.memcpy_async);
  if (in.missing() != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(runtime->name, " has no ", in.missing()));
  }
  auto* const persistent = new CudaApi(api);
  EBBTIDE_CUDA_FUNCTIONS(EBBTIDE_ONCE, EBBTIDE_AGAIN)
  persistent->memcpy_async = &Again<&CudaApi::memcpy_async>::Call;
  return loaded = persistent;
}

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
            name, &found, kDriverVersion, cudaEnableDefault, &result);
    const bool is_found = result == cudaDriverEntryPointSuccess;
    return error == cudaSuccess && is_found ? found : nullptr;
  });
  CudaDriver& api = Found<CudaDriver>();
  EBBTIDE_DRIVER_FUNCTIONS(EBBTIDE_FIND, EBBTIDE_FIND)
  if (in.missing() != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the driver has no ", in.missing()));
  }
  auto* const persistent = new CudaDriver(api);
  EBBTIDE_DRIVER_FUNCTIONS(EBBTIDE_ONCE, EBBTIDE_AGAIN)
  return loaded = persistent;
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

absl::Status CudaStatus(const CudaApi& api, cudaError_t result,
                        const char* call) {
  if (result == cudaSuccess) return absl::OkStatus();
  if (api.peek_at_last_error() == result) api.get_last_error();
  return absl::Status(CodeOf(result),
                      absl::StrCat(call, ": ", api.get_error_name(result), ": ",
                                   api.get_error_string(result)));
}

CudaDeviceScope::CudaDeviceScope(const CudaApi& api, int device) : api_(api) {
  int before = 0;
  status_ = CudaStatus(api_, api_.get_device(&before), "cudaGetDevice");
  if (!status_.ok() || before == device) return;
  status_ = CudaStatus(api_, api_.set_device(device), "cudaSetDevice");
  if (status_.ok()) device_before_ = before;
}

// Errors are dropped: a destructor cannot report them, and the next call will.
CudaDeviceScope::~CudaDeviceScope() {
  if (!device_before_) return;
  CudaStatus(api_, api_.set_device(*device_before_), "cudaSetDevice")
      .IgnoreError();
}

CudaScope::CudaScope(const CudaApi& api, std::optional<int> device)
    : api_(api) {
  if (!is_relaxed) status_ = Relax();
  if (!status_.ok() || !device) return;
  device_.emplace(api, *device);
  status_ = device_->status();
}

absl::Status CudaScope::Relax() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  absl::Status status =
      CudaStatus(api_, api_.thread_exchange_stream_capture_mode(&mode),
                 "cudaThreadExchangeStreamCaptureMode");
  if (!status.ok()) return status;
  mode_before_ = mode;
  is_relaxed = true;
  return status;
}

CudaScope::~CudaScope() {
  device_.reset();
  if (!mode_before_) return;
  is_relaxed = false;
  CudaStatus(api_, api_.thread_exchange_stream_capture_mode(&*mode_before_),
             "cudaThreadExchangeStreamCaptureMode")
      .IgnoreError();
}

std::optional<int> HostNodeOf(const CudaApi& api, int device) {
  int node = -1;
  const absl::Status known = CudaStatus(
      api, api.device_get_attribute(&node, cudaDevAttrHostNumaId, device),
      "cudaDeviceGetAttribute");
  if (!known.ok() || node < 0) return std::nullopt;
  return node;
}

}  // namespace ebbtide
