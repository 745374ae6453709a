#include "tests/cudasim/host_time.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>

namespace cudasim {
namespace {

// A program that is not heard of for longer sleeps; a shorter while may be
// other processes on its processor.
constexpr int64_t kSleepNs = 50'000'000;

struct ThreadTime {
  int depth = 0;
  const bool is_main = gettid() == getpid();
  bool counts = is_main;
  bool has_left = false;
  int64_t entered = 0;  // by the system's clock
  int64_t left = 0;
  // The thread's clock when it was last read, and what has been counted of it
  // since, here and in the simulator. Reading it is a call of the system.
  int64_t cpu = 0;
  int64_t counted = 0;
  double beyond_ns = 0;  // time beyond the base; negative: below it
};
thread_local ThreadTime thread;

// Not by std::chrono, whose clock may be the virtual one.
int64_t Read(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

uint64_t SleepIn(int64_t quiet) {
  return quiet > kSleepNs ? quiet - kSleepNs : 0;
}

// How long the thread's processor takes now for a fixed piece of work, against
// an idle machine. A neighbour on the same core, a lower clock and a slower
// machine all show in it.
class Pace {
 public:
  // Measures where the last time was long ago.
  double Now(int64_t now) {
    if (now - measured_at_ < kEveryNs) return pace_;
    Work();
    measured_at_ = Read(CLOCK_MONOTONIC);
    const double measured = static_cast<double>(measured_at_ - now) / kUsualNs;
    if (measured < kMost) pace_ += kWeight * (measured - pace_);
    return pace_;
  }

 private:
  static constexpr int64_t kEveryNs = 1'000'000;
  static constexpr double kUsualNs = 4'900;
  static constexpr double kMost = 10;  // the thread did not run all the time
  static constexpr double kWeight = 0.1;

  // Loads that depend on each other.
  void Work() {
    for (int i = 0; i < 2000; ++i) {
      uint32_t& cell = cells_[at_ % kCells];
      cell += i;
      at_ = at_ * 1664525 + 1013904223 + (cell & 1);
    }
  }

  static constexpr uint32_t kCells = 4 << 10;
  static_assert(std::has_single_bit(kCells));
  double pace_ = 1;
  int64_t measured_at_ = 0;
  uint32_t at_ = 0;
  // No vector: threads make calls while their variables are destroyed.
  std::array<uint32_t, kCells> cells_ = {};
};

// Processor time since the thread left. A short while is the thread's own.
int64_t Spent(int64_t now) {
  constexpr int64_t kShortNs = 200'000;
  const int64_t away = now - thread.left;
  if (away < kShortNs) {
    thread.counted += away;
    return away;
  }
  const int64_t cpu = Read(CLOCK_THREAD_CPUTIME_ID);
  const int64_t unknown = cpu - thread.cpu - thread.counted;
  thread.cpu = cpu;
  thread.counted = 0;
  return std::clamp<int64_t>(unknown, 0, away);
}

}  // namespace

uint64_t HostTime::Enter() {
  if (thread.depth++ > 0 || !thread.counts) return 0;
  const int64_t now = Read(CLOCK_MONOTONIC);
  thread.entered = now;
  if (!thread.has_left) return 0;
  const int64_t spent = Spent(now);
  static thread_local Pace pace;
  const auto usual = static_cast<int64_t>(spent / pace.Now(now));
  (thread.is_main ? main_ : autograd_).cpu_ns += usual;
  if (!options_.counts_own) return 0;
  uint64_t passed = SleepIn(now - left_ - spent);
  thread.beyond_ns += static_cast<double>(usual);
  if (thread.beyond_ns > 0) {
    const OpHostTime& op = thread.is_main ? options_.main : options_.autograd;
    passed += static_cast<uint64_t>(thread.beyond_ns * op.op_ns / op.base_ns);
    thread.beyond_ns = 0;
  }
  return passed;
}

void HostTime::Leave() {
  if (--thread.depth > 0 || !thread.counts) return;
  thread.left = Read(CLOCK_MONOTONIC);
  thread.has_left = true;
  thread.counted += thread.left - thread.entered;
  left_ = thread.left;
}

uint64_t HostTime::Op() {
  const OpHostTime& op = thread.is_main ? options_.main : options_.autograd;
  ++(thread.is_main ? main_ : autograd_).ops;
  thread.beyond_ns -= op.base_ns;
  return static_cast<uint64_t>(op.op_ns);
}

void HostTime::Count() { thread.counts = true; }

bool HostTime::Counts() { return thread.counts; }

uint64_t HostTime::Asleep() const {
  if (!options_.counts_own || left_ == 0) return 0;
  return SleepIn(Read(CLOCK_MONOTONIC) - left_);
}

}  // namespace cudasim
