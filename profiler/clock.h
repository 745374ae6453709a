// The clock of profiles and traces on the CPU.
#ifndef EBBTIDE_PROFILER_CLOCK_H_
#define EBBTIDE_PROFILER_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace ebbtide {

// Nanoseconds of the steady clock: never steps back, only differences mean
// anything.
inline int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// When that clock read so: [begin, end).
struct HostTimes {
  int64_t begin = 0;
  int64_t end = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CLOCK_H_
