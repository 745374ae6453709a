#include "allocator/cuda_clock.h"

#include <cmath>

namespace ebbtide {

absl::StatusOr<std::optional<double>> CudaClock::SecondsOf(
    const std::shared_ptr<const CudaEvent>& event) {
  const CudaApi& api = event->api();
  const cudaError_t reached = event->Query();
  if (reached == cudaErrorNotReady) return std::nullopt;
  if (reached != cudaSuccess) return CudaStatus(api, reached, "cudaEventQuery");
  Anchor from;
  {
    std::lock_guard lock(mutex_);
    if (anchor_.event == nullptr) anchor_.event = event;
    from = anchor_;
  }
  float milliseconds = 0;
  const absl::Status known = CudaStatus(
      api,
      api.event_elapsed_time(&milliseconds, from.event->get(), event->get()),
      "cudaEventElapsedTime");
  if (!known.ok()) return known;
  const double at = from.at + double{milliseconds} * 1e-3;
  std::lock_guard lock(mutex_);
  if (at > anchor_.at) anchor_ = {event, at};
  return at;
}

HostTimes CudaClock::HostTimesOf(double began, double ended, int64_t asked) {
  const int64_t seen = NowNanos();
  std::lock_guard lock(mutex_);
  const int64_t end = match_.HostTime(std::llround(ended * 1e9), asked, seen);
  return {.begin = end - std::llround((ended - began) * 1e9), .end = end};
}

}  // namespace ebbtide
