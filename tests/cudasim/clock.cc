// libcudasim_clock.so: std::chrono::steady_clock is the virtual clock, for a
// process that preloads this library in front of the simulated runtime. So a
// library that times what it does, or compares steps, sees what it would see on
// the device. Waits until a time of that clock wait as long in real time as it
// is from now.
#include <dlfcn.h>
#include <pthread.h>

#include <chrono>
#include <ctime>

#include "tests/cudasim/control.h"

namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t Nanos(const timespec& time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

timespec RealOf(const timespec& until) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t left = Nanos(until) - static_cast<int64_t>(cudasim_now_ns());
  const int64_t real = Nanos(now) + (left > 0 ? left : 0);
  return {.tv_sec = real / kSecond, .tv_nsec = real % kSecond};
}

}  // namespace

std::chrono::steady_clock::time_point
std::chrono::steady_clock::now() noexcept {
  return time_point(duration(static_cast<int64_t>(cudasim_now_ns())));
}

// The wait of std::condition_variable. C code and Python take their times for
// it from the system, not from here, and wait otherwise.
extern "C" int pthread_cond_clockwait(pthread_cond_t* condition,
                                      pthread_mutex_t* mutex, clockid_t clock,
                                      const timespec* until) {
  using Function =
      int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto real =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  if (clock != CLOCK_MONOTONIC) return real(condition, mutex, clock, until);
  const timespec then = RealOf(*until);
  return real(condition, mutex, clock, &then);
}
