// A lock for work of some nanoseconds that threads take turns at rather than
// fight for. Giving it up is a plain store, which is half of what a mutex costs
// that nobody else wants (DECISIONS.md).
#ifndef EBBTIDE_ALLOCATOR_SPIN_LOCK_H_
#define EBBTIDE_ALLOCATOR_SPIN_LOCK_H_

#include <atomic>
#include <thread>

namespace ebbtide {

// For std::lock_guard. Whoever waits lets others run.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() {
    while (is_taken_.exchange(true, std::memory_order_acquire)) {
      while (is_taken_.load(std::memory_order_relaxed)) {
        std::this_thread::yield();
      }
    }
  }
  void unlock() { is_taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_taken_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_SPIN_LOCK_H_
