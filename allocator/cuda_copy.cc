#include "allocator/cuda_copy.h"

#include "absl/strings/str_format.h"

namespace ebbtide {

// The first to see an end decides, so that it stays what it is.
void CudaCopy::Settle(cudaError_t result) const {
  cudaError_t expected = cudaErrorNotReady;
  result_.compare_exchange_strong(expected, result);
}

CudaCopy::State CudaCopy::state() const {
  if (result_ == cudaErrorNotReady) {
    const CudaScope scope(done_.api());
    Settle(done_.Query());
  }
  const cudaError_t result = result_;
  if (result == cudaErrorNotReady) return State::kPending;
  return result == cudaSuccess ? State::kDone : State::kFailed;
}

absl::Status CudaCopy::Wait() const {
  if (state() == State::kPending) {
    const CudaScope scope(done_.api());
    Settle(done_.Wait());
  }
  return Failure();
}

absl::Status CudaCopy::Failure() const {
  const cudaError_t result = result_;
  if (result == cudaErrorNotReady || result == cudaSuccess) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrFormat("a copy of %d bytes has failed: %s", Count(size_),
                      done_.api().get_error_name(result)));
}

}  // namespace ebbtide
