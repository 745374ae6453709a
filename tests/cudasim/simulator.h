// The simulated machine: heap, streams, faults and hazards behind one lock.
#ifndef EBBTIDE_TESTS_CUDASIM_SIMULATOR_H_
#define EBBTIDE_TESTS_CUDASIM_SIMULATOR_H_

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/cudasim/calls.h"
#include "tests/cudasim/control.h"
#include "tests/cudasim/error.h"
#include "tests/cudasim/hazards.h"
#include "tests/cudasim/heap.h"
#include "tests/cudasim/host_memory.h"
#include "tests/cudasim/queue.h"
#include "tests/cudasim/settings.h"

namespace cudasim {

// A variable that a program has on each device.
struct DeviceVariable {
  size_t size = 0;
  std::vector<void*> addresses;
};

struct Simulator {
  // Never destroyed: threads of the program outlive main.
  static Simulator& Get();

  explicit Simulator(const Settings& settings);

  // The call is this thread's, and counted.
  void NoteCaller(const char* function);
  void Observe(const Op& op) const;
  // The message stays for good; `name` may be a temporary.
  const char* Intern(const std::string& name);
  // The first message counts.
  void Break(const std::string& message);
  // Queues the work, calls the observer, and looks for hazards.
  OpRef Push(Stream* stream, Work work, Lock& lock);

  // The virtual clock as any thread may read it.
  uint64_t NowUnlocked();

  Settings settings;
  std::mutex mutex;
  HostTime host_time;
  Heap heap;
  HostMemory host;
  Queue queue;
  Calls calls;
  const char* failed = nullptr;  // the one call that was made to fail
  bool fault_breaks = false;
  bool is_traced = false;
  std::vector<const char*> trace;         // callers of the calls so far
  std::atomic<uint64_t> latest_read = 0;  // last reading of the clock, by
                                          // NowUnlocked
  Hazards hazards;
  bool hazards_fatal = true;
  uint64_t blocks_taken = 0;
  uint64_t kernels = 0;
  uint64_t copies = 0;
  uint64_t copied_bytes = 0;
  uint64_t memsets = 0;
  uint64_t out_of_bounds = 0;
  uint64_t live_events = 0;
  const char* broken = nullptr;
  // One per process: the observer is loaded before anything is simulated,
  // mostly in programs that never simulate anything.
  static inline CudasimObserver observer = {};
  std::unordered_map<const void*, const char*> kernel_names;  // by host stub
  std::unordered_map<const void*, DeviceVariable> variables;
  std::set<std::string> interned;
};

// The op that a thread runs (cudasim_op_begin).
struct RunningOp {
  bool runs = false;
  double left_ns = 0;  // rest of its time on the device
  unsigned kernels_left = 0;
  unsigned kernels = 0;  // so far
};

// The device of this thread, whether its device writes move no bytes, and
// whether its calls are none of the program's.
struct ThreadState {
  int device = 0;
  int shadowed = 0;
  int aside = 0;
  int last_error = 0;
  RunningOp op = {};
};
ThreadState& Thread();

// One call of the program: takes the lock, counts, lets the host's clock go on,
// and says whether the call is to fail.
class Call {
 public:
  // A null name only takes the lock. A call that does no work on the device, as
  // cudaGetDevice, succeeds on a broken one.
  explicit Call(const char* function, bool works = true);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  int error() const { return error_; }
  Simulator* operator->() const { return &simulator_; }
  Lock& lock() { return lock_; }
  // The program's handle of a stream; null if there is no such stream.
  Stream* StreamOf(const void* handle) const;

  // The call takes the host so much longer, where a device file says it.
  void Spend(double ns);
  // Time of this thread's next kernel on the device, counted as launched;
  // `otherwise` if no op runs that gives it.
  Nanos KernelTime(Nanos otherwise);
  // The thread's processor time is the simulator's until Resume.
  void Pause() { simulator_.host_time.Enter(); }
  void Resume() { simulator_.host_time.Leave(); }

 private:
  Simulator& simulator_;
  Lock lock_;
  int error_ = 0;
  bool is_timed_ = false;  // a call of the program's, on a thread that counts
  bool is_apart_ = false;  // its time here is the simulator's
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_SIMULATOR_H_
