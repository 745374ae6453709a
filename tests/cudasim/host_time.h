// HostTime is the share of the virtual clock that the program's own code takes
// between its calls.
//
// Python and PyTorch take a constant per op: one on the main thread, where
// Python calls them, and one on autograd's threads. A thread's processor time
// beyond `base_ns` per op is added: that is the cost of a library beside
// PyTorch. Only threads that run ops count, and the main thread; threads in the
// background work beside the program. Nothing that the simulator does counts.
// While every thread that counts sleeps, time passes as it does.
//
// The simulator's lock is held around every call but Asleep.
#ifndef EBBTIDE_TESTS_CUDASIM_HOST_TIME_H_
#define EBBTIDE_TESTS_CUDASIM_HOST_TIME_H_

#include <atomic>
#include <cstdint>

namespace cudasim {

// Host time of an op on a thread.
struct OpHostTime {
  double op_ns = 0;  // that Python and PyTorch take for it
  // Processor time that they take for it here, on an otherwise idle machine:
  // measurements are scaled to that. Time beyond it passes in the proportion of
  // the two.
  double base_ns = 0;
};

struct HostTimeOptions {
  OpHostTime main;
  OpHostTime autograd;
  // Add what is beyond the base. Not deterministic.
  bool counts_own = false;
};

// Ops of a thread, and the processor time that it took for them.
struct HostShare {
  uint64_t cpu_ns = 0;
  uint64_t ops = 0;
};

class HostTime {
 public:
  explicit HostTime(const HostTimeOptions& options) : options_(options) {}

  // The thread enters the simulator and leaves it. Pairs nest. Enter returns
  // the nanoseconds that pass.
  uint64_t Enter();
  void Leave();
  // The thread has queued an op; returns the nanoseconds that pass.
  uint64_t Op();
  // From now on this thread counts.
  static void Count();
  static bool Counts();

  const HostShare& main() const { return main_; }
  const HostShare& autograd() const { return autograd_; }
  // Real nanoseconds for which every thread that counts has slept by now.
  uint64_t Asleep() const;

 private:
  const HostTimeOptions options_;
  HostShare main_;
  HostShare autograd_;
  std::atomic<int64_t> left_ = 0;  // when a thread last left
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_HOST_TIME_H_
