// The functions of the CUDA runtime that ebbtide itself calls, found in the
// library that PyTorch has loaded. Nothing of ours links CUDA: one binary runs
// with and without a driver, and a second runtime in the process would not know
// the first one's streams. Whoever needs them is given a pointer to the struct,
// so that tests can put their own functions there.
//
// Thread-safe where the runtime is. Not to be used in a child of fork.
#ifndef EBBTIDE_ALLOCATOR_CUDA_API_H_
#define EBBTIDE_ALLOCATOR_CUDA_API_H_

#include <cuda_runtime_api.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebbtide {

// The CUDA runtime that is in the process: libcudart.so.13, or .so.12. It is
// held for ever, so that who unloads it does not take its functions along.
// FailedPrecondition if there is none, which may change when torch is loaded.
struct CudaRuntimeLibrary {
  void* handle;
  const char* name;
};
absl::StatusOr<CudaRuntimeLibrary> FindCudaRuntime();

// Each member is the function of that name, as CUDA documents it.
struct CudaApi {
  // Those of FindCudaRuntime, valid for ever. FailedPrecondition as that, or if
  // a function is missing in it. A call that fails is made once more: what
  // passes by itself costs the program nothing.
  static absl::StatusOr<const CudaApi*> Loaded();

  decltype(&cudaPeekAtLastError) peek_at_last_error;
  decltype(&cudaGetLastError) get_last_error;
  decltype(&cudaGetErrorName) get_error_name;
  decltype(&cudaGetErrorString) get_error_string;
  decltype(&cudaGetDevice) get_device;
  decltype(&cudaSetDevice) set_device;
  decltype(&cudaDeviceGetAttribute) device_get_attribute;
  // Spelled, like memcpy_async, because CUDA overloads it for C++.
  cudaError_t (*malloc)(void** block, size_t size);
  decltype(&cudaFree) free;
  decltype(&cudaMemGetInfo) mem_get_info;
  decltype(&cudaHostRegister) host_register;
  decltype(&cudaHostUnregister) host_unregister;
  decltype(&cudaStreamCreateWithPriority) stream_create_with_priority;
  decltype(&cudaStreamDestroy) stream_destroy;
  decltype(&cudaStreamWaitEvent) stream_wait_event;
  decltype(&cudaStreamSynchronize) stream_synchronize;
  decltype(&cudaStreamIsCapturing) stream_is_capturing;
  decltype(&cudaThreadExchangeStreamCaptureMode)
      thread_exchange_stream_capture_mode;
  decltype(&cudaEventCreateWithFlags) event_create_with_flags;
  decltype(&cudaEventDestroy) event_destroy;
  decltype(&cudaEventRecord) event_record;
  decltype(&cudaEventQuery) event_query;
  decltype(&cudaEventSynchronize) event_synchronize;
  decltype(&cudaEventElapsedTime) event_elapsed_time;
  cudaError_t (*memcpy_async)(void* to, const void* from, size_t size,
                              cudaMemcpyKind kind, cudaStream_t stream);
  decltype(&cudaMemcpyPeerAsync) memcpy_peer_async;
  decltype(&cudaMemsetAsync) memset_async;
};

// What `call`, made just now on this thread, returned. An error is taken back
// from the runtime's "last error", so that the program never finds ours there;
// one that the program has not asked for yet stays, and so does one that has
// broken the device (the program must see it).
// Codes: ResourceExhausted for memory, FailedPrecondition without a device or a
// driver for it, Internal for what only a mistake of ours can cause, and
// Unavailable for everything else.
absl::Status CudaStatus(const CudaApi& api, cudaError_t result,
                        const char* call);

// For as long as it lives, calls of this thread go to `device`.
//
// A thread whose current device is another one gets it back, which gives that
// device a context if it had none yet; callers avoid it where they can.
class CudaDeviceScope {
 public:
  CudaDeviceScope(const CudaApi& api, int device);
  ~CudaDeviceScope();
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;

  // An error: nothing is certain about where calls go.
  const absl::Status& status() const { return status_; }

 private:
  const CudaApi& api_;
  std::optional<int> device_before_;
  absl::Status status_;
};

// For as long as it lives, calls of this thread do not end a stream capture
// that runs elsewhere, and go to `device` where one is named. Under the global
// mode, which is PyTorch's, memory requests, queries, registrations and host
// waits of any thread would make the capture fail; events that are recorded,
// waited for by streams or measured, and copies do not, and need no such scope.
// On streams that are being captured none of them must be made. Scopes nest, at
// no cost.
class CudaScope {
 public:
  explicit CudaScope(const CudaApi& api, std::optional<int> device = {});
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

  // As CudaDeviceScope.
  const absl::Status& status() const { return status_; }

 private:
  absl::Status Relax();

  const CudaApi& api_;
  std::optional<cudaStreamCaptureMode> mode_before_;
  std::optional<CudaDeviceScope> device_;
  absl::Status status_;
};

// The NUMA node of host memory nearest to the device, if the driver knows one.
std::optional<int> HostNodeOf(const CudaApi& api, int device);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_API_H_
