// The functions of the CUDA runtime and the driver that ebbtide itself calls,
// found in the library that PyTorch has loaded. Nothing of ours links CUDA: one
// binary runs with and without a driver, and a second runtime in the process
// would not know the first one's streams. Whoever needs them is given a pointer
// to the struct, so that tests can put their own functions there.
//
// Thread-safe where the runtime is. Not to be used in a child of fork.
#ifndef EBBTIDE_ALLOCATOR_CUDA_API_H_
#define EBBTIDE_ALLOCATOR_CUDA_API_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebbtide {

// Functions of the runtime, as CUDA documents them, by the name of the member.
// AGAIN: its failure says that nothing has happened, and has no answer of its
// own. After the others' failure PyTorch's cache is emptied if memory is short,
// and what could not be given back may be gone.
#define EBBTIDE_CUDA_FUNCTIONS(ONCE, AGAIN)                        \
  ONCE(peek_at_last_error, cudaPeekAtLastError)                    \
  ONCE(get_last_error, cudaGetLastError)                           \
  ONCE(get_error_name, cudaGetErrorName)                           \
  ONCE(get_error_string, cudaGetErrorString)                       \
  AGAIN(get_device, cudaGetDevice)                                 \
  AGAIN(set_device, cudaSetDevice)                                 \
  AGAIN(device_get_attribute, cudaDeviceGetAttribute)              \
  ONCE(free, cudaFree)                                             \
  AGAIN(mem_get_info, cudaMemGetInfo)                              \
  AGAIN(host_register, cudaHostRegister)                           \
  ONCE(host_unregister, cudaHostUnregister)                        \
  AGAIN(stream_create_with_priority, cudaStreamCreateWithPriority) \
  ONCE(stream_destroy, cudaStreamDestroy)                          \
  AGAIN(stream_wait_event, cudaStreamWaitEvent)                    \
  AGAIN(stream_synchronize, cudaStreamSynchronize)                 \
  AGAIN(stream_is_capturing, cudaStreamIsCapturing)                \
  AGAIN(thread_exchange_stream_capture_mode,                       \
        cudaThreadExchangeStreamCaptureMode)                       \
  AGAIN(event_create_with_flags, cudaEventCreateWithFlags)         \
  ONCE(event_destroy, cudaEventDestroy)                            \
  AGAIN(event_record, cudaEventRecord)                             \
  AGAIN(event_query, cudaEventQuery)                               \
  AGAIN(event_synchronize, cudaEventSynchronize)                   \
  AGAIN(event_elapsed_time, cudaEventElapsedTime)                  \
  ONCE(memcpy_peer_async, cudaMemcpyPeerAsync)                     \
  AGAIN(memset_async, cudaMemsetAsync)

struct CudaApi {
  // Functions of the CUDA runtime that is in the process, libcudart.so.13 or
  // .so.12. It is held for ever: unloading it elsewhere leaves them valid.
  // FailedPrecondition if there is none, which may change when torch is loaded,
  // or if a function is missing in it. A call that fails is made once more,
  // where that can help: what passes by itself costs the program nothing.
  static absl::StatusOr<const CudaApi*> Loaded();

#define EBBTIDE_MEMBER(member, function) decltype(&(function)) member;
  EBBTIDE_CUDA_FUNCTIONS(EBBTIDE_MEMBER, EBBTIDE_MEMBER)
#undef EBBTIDE_MEMBER
  // Spelled, because CUDA overloads them for C++.
  cudaError_t (*malloc)(void** block, size_t size);
  cudaError_t (*memcpy_async)(void* to, const void* from, size_t size,
                              cudaMemcpyKind kind, cudaStream_t stream);
};

// Returns the status of `call`, made just now on this thread. An error is taken
// back from the runtime's "last error", so that the program never finds ours
// there; one that the program has not asked for yet stays, and so does one that
// has broken the device (the program must see it). Codes: ResourceExhausted for
// memory, FailedPrecondition without a device or a driver for it, Internal for
// what only a mistake of ours can cause, and Unavailable for everything else.
absl::Status CudaStatus(const CudaApi& api, cudaError_t result,
                        const char* call);

// Functions of the driver that map physical memory to addresses, by the name of
// the member.
#define EBBTIDE_DRIVER_FUNCTIONS(ONCE, AGAIN)                         \
  ONCE(device_get_attribute, cuDeviceGetAttribute)                    \
  ONCE(get_error_string, cuGetErrorString)                            \
  ONCE(mem_get_allocation_granularity, cuMemGetAllocationGranularity) \
  ONCE(mem_address_reserve, cuMemAddressReserve)                      \
  AGAIN(mem_create, cuMemCreate)                                      \
  AGAIN(mem_release, cuMemRelease)                                    \
  AGAIN(mem_map, cuMemMap)                                            \
  AGAIN(mem_unmap, cuMemUnmap)                                        \
  AGAIN(mem_set_access, cuMemSetAccess)

struct CudaDriver {
  // As CudaApi's, found through the runtime.
  static absl::StatusOr<const CudaDriver*> Loaded();

#define EBBTIDE_MEMBER(member, function) decltype(&(function)) member;
  EBBTIDE_DRIVER_FUNCTIONS(EBBTIDE_MEMBER, EBBTIDE_MEMBER)
#undef EBBTIDE_MEMBER
};

// The result of `call`, made just now. ResourceExhausted for memory,
// Unavailable for every other error.
absl::Status DriverStatus(const CudaDriver& driver, CUresult result,
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

// The NUMA node of host memory nearest to the device, if the driver reports
// one.
std::optional<int> HostNodeOf(const CudaApi& api, int device);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_API_H_
