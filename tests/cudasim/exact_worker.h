// The thread that computes for the simulated device.
#ifndef EBBTIDE_TESTS_CUDASIM_EXACT_WORKER_H_
#define EBBTIDE_TESTS_CUDASIM_EXACT_WORKER_H_

#include <condition_variable>
#include <functional>
#include <mutex>

namespace cudasim {

// Any thread may find itself draining a stream, in any mode: inside autograd,
// under autocast, with any number of threads for CPU kernels. Here there is one
// thread with none of that, so the bits depend on no caller.
class Worker {
 public:
  // Begins with the first function. Never destroyed, as the device is not.
  static Worker& Get();

  // Runs the function, which must not throw, and waits for it. Functions of
  // several callers run one after the other.
  void Run(const std::function<void()>& function);

 private:
  Worker();
  [[noreturn]] void Loop();

  std::mutex callers_;  // held by whoever has a function here
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* function_ = nullptr;
  bool ready_ = false;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_EXACT_WORKER_H_
