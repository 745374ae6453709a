// Measures a device's copies out and back, alone and with both directions at
// work.
//
// Timing events around a copy are looked at later, when they have happened, so
// measuring never waits. A copy counts as contended where a copy the other way
// ran during nearly all of its time, as alone where during nearly none of it,
// and otherwise not at all. An observer receives the times of each copy.
//
// Thread-safe, and no lock is held while CUDA is called.
#ifndef EBBTIDE_ALLOCATOR_CUDA_METER_H_
#define EBBTIDE_ALLOCATOR_CUDA_METER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "allocator/cuda_api.h"
#include "allocator/cuda_clock.h"
#include "allocator/cuda_events.h"
#include "allocator/rate.h"
#include "planner/units.h"

namespace ebbtide {

enum class CopyWay { kOut, kBack };  // to the host; to the device

constexpr CopyWay Other(CopyWay way) {
  return way == CopyWay::kOut ? CopyWay::kBack : CopyWay::kOut;
}

// A caller's name for a copy, in its own numbers.
struct CopyLabel {
  int name = -1;
  int64_t value = -1;
};

// A copy that has ended, and when it ran by the host's clock (NowNanos).
struct TimedCopy {
  CopyWay way = CopyWay::kOut;
  CopyLabel label;
  Bytes size{};
  int64_t begin = 0;
  int64_t end = 0;
};

// Receives copies, each way in the order in which they ran, on whichever thread
// polls. `clock` is of the device, and may be shared.
struct CopyObserver {
  std::shared_ptr<CudaClock> clock;
  std::function<void(const TimedCopy&)> on_copy;
};

class CudaMeter {
 public:
  // Below this a copy's time is mostly that of its start.
  static constexpr Bytes kLeast{1 << 20};

  // With an observer all copies are timed.
  explicit CudaMeter(std::shared_ptr<CudaEvents> events,
                     CopyObserver observer = {});

  // Times the copies that begin from now on, or none. On at first.
  void SetOn(bool is_on) { is_on_ = is_on; }

  // A copy that is being given to its stream.
  struct Span {
    Bytes size{};
    CopyLabel label;
    std::shared_ptr<CudaEvent> begin;
    std::shared_ptr<CudaEvent> end;
    int64_t asked = 0;  // for its end, by the host's clock
    int64_t turn = 0;
    // Seconds on the device's clock, as far as they are known.
    std::optional<double> began;
    std::optional<double> ended;
  };

  // Before the first and after the last part of a copy, with the device
  // current. One that cannot be timed (a small one, or one whose parts mix with
  // another thread's) has no span, and no error: measuring is a luxury.
  std::optional<Span> Begin(CopyWay way, Bytes size, CopyLabel label,
                            cudaStream_t stream);
  // `span` may be empty, if Begin's was; call it even where the copy failed,
  // with `good` false then.
  void End(CopyWay way, std::optional<Span> span, cudaStream_t stream,
           bool good);

  // Looks at what has ended since. Never blocks.
  void Poll();

  // Bytes per second of recent copies, larger ones counting more. 0 until there
  // was one.
  double Bandwidth(CopyWay way) const {
    return lanes_[static_cast<size_t>(way)].alone.per_second();
  }
  double ContendedBandwidth(CopyWay way) const {
    return lanes_[static_cast<size_t>(way)].contended.per_second();
  }

 private:
  struct Interval {
    double begin;
    double end;
  };
  struct Lane {
    std::atomic<int64_t> turns = 0;  // Begins so far
    std::atomic<int> open = 0;       // that have not ended
    std::deque<Span> arrived;     // under the mutex; the rest is the poller's
    std::deque<Span> spans;       // in stream order
    std::deque<Interval> recent;  // that have been measured
    Rate alone;
    Rate contended;
  };

  Lane& LaneOf(CopyWay way) { return lanes_[static_cast<size_t>(way)]; }
  void Collect();
  bool Measure(CopyWay way);
  void AddRate(CopyWay way, Bytes size, Interval interval);
  void Tell(CopyWay way, const Span& span);
  bool Look(Span& span);
  double SharedWithOther(CopyWay way, Interval interval);

  const std::shared_ptr<CudaEvents> events_;
  const CopyObserver observer_;
  const std::shared_ptr<CudaClock> clock_;
  std::mutex mutex_;
  std::array<Lane, 2> lanes_;
  std::atomic<bool> is_on_ = true;
  std::atomic<bool> polling_ = false;  // by one thread at a time
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_CUDA_METER_H_
