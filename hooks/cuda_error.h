// Passes the failure of a CUDA call of ebbtide to the program that needs the
// result.
#ifndef EBBTIDE_HOOKS_CUDA_ERROR_H_
#define EBBTIDE_HOOKS_CUDA_ERROR_H_

#include <c10/cuda/CUDAException.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "allocator/cuda_api.h"

namespace ebbtide {

// Throws what PyTorch throws of a broken device, whoever found it broken: a
// program may expect that error. Nothing where the current device works.
inline void RaiseIfBroken(const CudaApi& api) {
  size_t available = 0;
  size_t total = 0;
  C10_CUDA_CHECK(api.mem_get_info(&available, &total));
}

// Throws c10::Error unless the status is OK.
inline void CheckCall(const CudaApi& api, const absl::Status& status) {
  if (status.ok()) return;
  RaiseIfBroken(api);
  TORCH_CHECK(false, "ebbtide: ", std::string(status.message()));
}

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_CUDA_ERROR_H_
