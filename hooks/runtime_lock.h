// The one lock of hooks/. Recursive, because an allocation inside a
// recomputation may ask the runtime to evict. Lock order: this lock, then the
// allocator's.
//
// Python's interpreter lock has no place in that order: PyTorch takes it under
// ours (the name of a Python node, the last reference to a tensor with a
// wrapper), and calls ebbtide with it held (a graph that Python frees). So a
// thread that has to wait for ours releases the interpreter while it waits. An
// allocation must not: PyTorch makes some with the interpreter and a lock of
// its own held (a generator's), and the next who has the interpreter may want
// that lock. So allocations wait for ours with a time limit.
#ifndef EBBTIDE_HOOKS_RUNTIME_LOCK_H_
#define EBBTIDE_HOOKS_RUNTIME_LOCK_H_

#include <chrono>
#include <mutex>

namespace ebbtide {

class RuntimeLock {
 public:
  RuntimeLock() { Acquire(); }
  ~RuntimeLock() { Mutex().unlock(); }
  RuntimeLock(const RuntimeLock&) = delete;
  RuntimeLock& operator=(const RuntimeLock&) = delete;

  // Lock held by this thread, which has to unlock it.
  static void Acquire();
  // Owns nothing where the patience was not enough. Keeps the interpreter.
  static std::unique_lock<std::recursive_timed_mutex> TryAcquire(
      std::chrono::milliseconds patience);

  // A child of fork makes it anew.
  static std::recursive_timed_mutex& Mutex() {
    static auto& mutex = *new std::recursive_timed_mutex;
    return mutex;
  }
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RUNTIME_LOCK_H_
