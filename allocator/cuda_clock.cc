#include "allocator/cuda_clock.h"

#include <cmath>

namespace ebbtide {

absl::StatusOr<std::optional<double>> CudaClock::SecondsOf(
    const std::shared_ptr<const CudaEvent>& event) {
  Anchor from;
  {
    std::lock_guard lock(mutex_);
    from = anchor_;
  }
  if (from.event == nullptr) {
    const auto reached = event->MillisecondsUntil(*event);
    if (!reached.ok() || !*reached) return reached;
    std::lock_guard lock(mutex_);
    if (anchor_.event == nullptr) anchor_.event = event;
    from = anchor_;
  }
  const auto elapsed = from.event->MillisecondsUntil(*event);
  if (!elapsed.ok() || !*elapsed) return elapsed;
  const double at = from.at + **elapsed * 1e-3;
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
