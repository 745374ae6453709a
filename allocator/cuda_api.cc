#include "allocator/cuda_api.h"

#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "profiler/function_finder.h"

namespace ebbtide {
namespace {

const char* FindAll(void* library, CudaApi* api) {
  FunctionFinder in(library);
  in.Find("cudaPeekAtLastError", &api->peek_at_last_error);
  in.Find("cudaGetLastError", &api->get_last_error);
  in.Find("cudaGetErrorName", &api->get_error_name);
  in.Find("cudaGetErrorString", &api->get_error_string);
  in.Find("cudaGetDevice", &api->get_device);
  in.Find("cudaSetDevice", &api->set_device);
  in.Find("cudaDeviceGetAttribute", &api->device_get_attribute);
  in.Find("cudaMalloc", &api->malloc);
  in.Find("cudaFree", &api->free);
  in.Find("cudaMemGetInfo", &api->mem_get_info);
  in.Find("cudaHostRegister", &api->host_register);
  in.Find("cudaHostUnregister", &api->host_unregister);
  in.Find("cudaStreamCreateWithPriority", &api->stream_create_with_priority);
  in.Find("cudaStreamDestroy", &api->stream_destroy);
  in.Find("cudaStreamWaitEvent", &api->stream_wait_event);
  in.Find("cudaStreamSynchronize", &api->stream_synchronize);
  in.Find("cudaStreamIsCapturing", &api->stream_is_capturing);
  in.Find("cudaThreadExchangeStreamCaptureMode",
          &api->thread_exchange_stream_capture_mode);
  in.Find("cudaEventCreateWithFlags", &api->event_create_with_flags);
  in.Find("cudaEventDestroy", &api->event_destroy);
  in.Find("cudaEventRecord", &api->event_record);
  in.Find("cudaEventQuery", &api->event_query);
  in.Find("cudaEventSynchronize", &api->event_synchronize);
  in.Find("cudaEventElapsedTime", &api->event_elapsed_time);
  in.Find("cudaMemcpyAsync", &api->memcpy_async);
  in.Find("cudaMemcpyPeerAsync", &api->memcpy_peer_async);
  in.Find("cudaMemsetAsync", &api->memset_async);
  return in.missing();
}

// The runtime's own functions, once they have been found.
CudaApi& Runtime() {
  static auto& runtime = *new CudaApi{};
  return runtime;
}

// Calls the runtime's function, and where it fails once more.
template <auto kFunction>
struct Again;
template <typename... Arguments,
          cudaError_t (*CudaApi::*kFunction)(Arguments...)>
struct Again<kFunction> {
  static cudaError_t Call(Arguments... arguments) {
    const CudaApi& api = Runtime();
    const cudaError_t first = (api.*kFunction)(arguments...);
    if (first == cudaSuccess || first == cudaErrorNotReady) return first;
    if (api.peek_at_last_error() == first) api.get_last_error();
    return (api.*kFunction)(arguments...);
  }
};

template <auto... kFunctions>
void CallAgain(CudaApi* api) {
  ((api->*kFunctions = &Again<kFunctions>::Call), ...);
}

// All whose failure says that nothing has happened, and that has no answer of
// its own: PyTorch's cache is emptied where there is no memory, and what could
// not be given back may be gone.
CudaApi Persistent(const CudaApi& runtime) {
  Runtime() = runtime;
  CudaApi api = runtime;
  CallAgain<&CudaApi::get_device, &CudaApi::set_device,
            &CudaApi::device_get_attribute, &CudaApi::mem_get_info,
            &CudaApi::host_register, &CudaApi::stream_create_with_priority,
            &CudaApi::stream_wait_event, &CudaApi::stream_synchronize,
            &CudaApi::stream_is_capturing,
            &CudaApi::thread_exchange_stream_capture_mode,
            &CudaApi::event_create_with_flags, &CudaApi::event_record,
            &CudaApi::event_query, &CudaApi::event_synchronize,
            &CudaApi::event_elapsed_time, &CudaApi::memcpy_async,
            &CudaApi::memset_async>(&api);
  return api;
}

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

absl::StatusOr<CudaRuntimeLibrary> FindCudaRuntime() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) return CudaRuntimeLibrary{library, name};
  }
  return absl::FailedPreconditionError(
      "no CUDA runtime is loaded (libcudart.so.13 or libcudart.so.12)");
}

absl::StatusOr<const CudaApi*> CudaApi::Loaded() {
  static std::mutex mutex;
  static const CudaApi* loaded = nullptr;
  std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  const auto runtime = FindCudaRuntime();
  if (!runtime.ok()) return runtime.status();
  CudaApi api = {};
  if (const char* missing = FindAll(runtime->handle, &api)) {
    return absl::FailedPreconditionError(
        absl::StrCat(runtime->name, " has no ", missing));
  }
  return loaded = new CudaApi(Persistent(api));
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

// What fails here has no one to be told to; the next call will say it again.
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
