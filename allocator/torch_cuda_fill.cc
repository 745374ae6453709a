#include "allocator/torch_cuda_fill.h"

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "allocator/cuda_api.h"

namespace ebbtide {
namespace {

thread_local int fill_here = -1;

}  // namespace

int ExchangeFill(int byte) { return std::exchange(fill_here, byte); }

void FillNewBlock(void* block, size_t size) {
  if (fill_here < 0 || size == 0) return;
  const auto api = CudaApi::Loaded();
  if (!api.ok()) return;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  const absl::Status filled =
      CudaStatus(**api, (*api)->memset_async(block, fill_here, size, stream),
                 "cudaMemsetAsync");
  TORCH_CHECK(filled.ok(), "ebbtide: ", std::string(filled.message()));
}

}  // namespace ebbtide
