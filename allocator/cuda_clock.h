// Converts timing events of one device to times: by a clock that begins with
// the first one asked about, and by the host's (profiler/clock.h).
//
// Thread-safe. Never blocks, and no lock is held while CUDA is called.
#ifndef EBBTIDE_ALLOCATOR_CUDA_CLOCK_H_
#define EBBTIDE_ALLOCATOR_CUDA_CLOCK_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "allocator/cuda_events.h"
#include "profiler/clock.h"
#include "profiler/clock_match.h"

namespace ebbtide {

class CudaClock {
 public:
  // Seconds; nullopt: it has not happened yet. `event` is a recorded timing
  // event. An error, as CudaStatus: its time will never be known.
  absl::StatusOr<std::optional<double>> SecondsOf(
      const std::shared_ptr<const CudaEvent>& event);

  // Host times of the work between two moments of SecondsOf, the later one
  // given just now, for an event that was recorded after NowNanos() was
  // `asked`.
  HostTimes HostTimesOf(double began, double ended, int64_t asked);

 private:
  struct Anchor {
    std::shared_ptr<const CudaEvent> event;
    double at = 0;
  };
  std::mutex mutex_;
  // The latest event known. Times between events are floats, so the nearer it
  // is, the more exact.
  Anchor anchor_;
  ClockMatch match_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_CLOCK_H_
