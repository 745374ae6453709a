// Moments of another clock, a device's, on the host's.
//
// A moment lies between when the host asked for it and when the host saw that
// it had passed. Both bound how far the clocks are apart: what is known gets
// narrower with each moment, and where clocks drift the newest bound counts.
// Nothing waits for that.
#ifndef EBBTIDE_PROFILER_CLOCK_MATCH_H_
#define EBBTIDE_PROFILER_CLOCK_MATCH_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ebbtide {

class ClockMatch {
 public:
  // Returns the host's time of the moment `there` on the other clock, in
  // [asked, seen] on the host's. All in nanoseconds.
  int64_t HostTime(int64_t there, int64_t asked, int64_t seen) {
    apart_ =
        std::clamp(apart_.value_or(seen - there), asked - there, seen - there);
    return there + *apart_;
  }

 private:
  std::optional<int64_t> apart_;  // the host's less the other's
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CLOCK_MATCH_H_
