// The one lock of hooks/. Recursive, because an allocation inside a replay may
// ask the runtime to evict. Lock order: this lock, then the allocator's; no
// call into Python or the GIL under it beyond what dropping a tensor does.
#ifndef EBBTIDE_HOOKS_RUNTIME_LOCK_H_
#define EBBTIDE_HOOKS_RUNTIME_LOCK_H_

#include <mutex>

namespace ebbtide {

class RuntimeLock {
 public:
  RuntimeLock() : lock_(Mutex()) {}

  static std::recursive_timed_mutex& Mutex() {
    static auto& mutex = *new std::recursive_timed_mutex;
    return mutex;
  }

 private:
  std::lock_guard<std::recursive_timed_mutex> lock_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_RUNTIME_LOCK_H_
