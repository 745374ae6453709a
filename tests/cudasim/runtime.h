// Helpers shared by the files of the runtime's interface.
#ifndef EBBTIDE_TESTS_CUDASIM_RUNTIME_H_
#define EBBTIDE_TESTS_CUDASIM_RUNTIME_H_

#include <cuda_runtime_api.h>

#include "tests/cudasim/simulator.h"

namespace cudasim {

static_assert(int{cudaErrorInvalidValue} == int(Error::kInvalidValue));
static_assert(int{cudaErrorMemoryAllocation} == int(Error::kMemoryAllocation));
static_assert(int{cudaErrorInvalidResourceHandle} ==
              int(Error::kInvalidResourceHandle));
static_assert(int{cudaErrorNotReady} == int(Error::kNotReady));
static_assert(int{cudaErrorLaunchFailure} == int(Error::kLaunchFailure));
static_assert(int{cudaErrorNotPermitted} == int(Error::kNotPermitted));
static_assert(int{cudaErrorNotSupported} == int(Error::kNotSupported));
static_assert(int{cudaErrorStreamCaptureUnsupported} ==
              int(Error::kStreamCaptureUnsupported));
static_assert(int{cudaErrorHostMemoryAlreadyRegistered} ==
              int(Error::kHostMemoryAlreadyRegistered));
static_assert(int{cudaErrorHostMemoryNotRegistered} ==
              int(Error::kHostMemoryNotRegistered));

// Returns the error and remembers it for cudaGetLastError, as every call does.
inline cudaError_t Report(int error) {
  if (error != 0) Thread().last_error = error;
  return static_cast<cudaError_t>(error);
}
inline cudaError_t Report(Error error) {
  return Report(static_cast<int>(error));
}

// Counts a function that does no work on the device, and returns the error that
// it fails with.
inline cudaError_t Pass(const char* function) {
  return Report(Call(function, false).error());
}

// Queues a kernel that computes nothing.
cudaError_t Launch(Call* call, const void* stream, const char* name,
                   Nanos cost);
// Answers for what a program should not use on the simulator; says so once.
cudaError_t NotSimulated(const char* function);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_RUNTIME_H_
