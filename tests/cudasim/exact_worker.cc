#include "tests/cudasim/exact_worker.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>

#include <thread>

namespace cudasim {

Worker& Worker::Get() {
  static auto* const worker = new Worker;
  return *worker;
}

// at::set_num_threads sets the calling thread's number, and with it the number
// for threads that have not asked yet; the latter is put back.
Worker::Worker() {
  const int threads = at::get_num_threads();
  std::thread([this] { Loop(); }).detach();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ready_; });
  }
  at::set_num_threads(threads);
}

void Worker::Run(const std::function<void()>& function) {
  const std::lock_guard<std::mutex> turn(callers_);
  std::unique_lock<std::mutex> lock(mutex_);
  function_ = &function;
  changed_.notify_all();
  changed_.wait(lock, [this] { return function_ == nullptr; });
}

void Worker::Loop() {
  at::set_num_threads(1);
  const at::RecordFunctionGuard unobserved(false);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::unique_lock<std::mutex> lock(mutex_);
  ready_ = true;
  changed_.notify_all();
  for (;;) {
    changed_.wait(lock, [this] { return function_ != nullptr; });
    lock.unlock();
    (*function_)();
    lock.lock();
    function_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace cudasim
