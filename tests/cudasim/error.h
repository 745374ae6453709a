// The CUDA error numbers the simulator returns, for code without CUDA headers;
// runtime.h checks that they are the same.
#ifndef EBBTIDE_TESTS_CUDASIM_ERROR_H_
#define EBBTIDE_TESTS_CUDASIM_ERROR_H_

namespace cudasim {

enum class Error : int {
  kNone = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInvalidResourceHandle = 400,
  kNotReady = 600,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailure = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_ERROR_H_
