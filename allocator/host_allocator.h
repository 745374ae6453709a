// Memory for tensors on the CPU when RAM is the device tier: small blocks one
// by one, large ones from the arena, all of them in the ledger, and the budget
// kept by asking for evictions.
//
// A large block counts as the whole pages it takes, a small one as what malloc
// gave. Live and retained bytes together stay within the budget, and large
// blocks within an eighth more than their recent peak: a job that needs little
// of its budget keeps little.
//
// When a request does not fit, the pressure handler is called, again and again
// until it fits or the handler has nothing left. A request that still does not
// fit is an overrun: the overrun handler may throw to refuse it; otherwise it
// goes through. On a thread that is inside a handler, further requests call no
// handler.
//
// Thread-safe. Handlers run on the thread that asks, without any lock of ours.
#ifndef EBBTIDE_ALLOCATOR_HOST_ALLOCATOR_H_
#define EBBTIDE_ALLOCATOR_HOST_ALLOCATOR_H_

#include <atomic>
#include <cstddef>

#include "allocator/arena.h"
#include "allocator/ledger.h"
#include "planner/units.h"
#include "profiler/kind.h"

namespace ebbtide {

class HostAllocator {
 public:
  static constexpr size_t kLarge = 64 << 10;
  static constexpr size_t kAlignment = 64;  // for small blocks; pages for large
  // Requests for large blocks after which a peak begins to be forgotten: those
  // of a step of any but the longest.
  static constexpr int64_t kWindow = 1 << 14;

  // Frees something and returns true, or returns false: nothing left. `needed`
  // is what must go for the request to fit. Must not throw.
  using PressureHandler = bool (*)(Bytes needed);
  // `wanted` is live + request. May throw: Allocate then has no effect.
  using OverrunHandler = void (*)(Bytes wanted, Bytes budget);

  explicit HostAllocator(const ArenaSystem& system = ArenaSystem::Real())
      : arena_(kNoBudget, system) {}

  // The one of this process. Never destroyed.
  static HostAllocator& Global();

  // nullptr for size 0 and where the system has no memory even after evictions.
  // `kind` applies to large blocks.
  void* Allocate(size_t size, Kind kind = Kind::kOther);

  // By the size that was asked for; FreeSmall takes no lock.
  static bool IsLarge(size_t size) { return size >= kLarge; }
  void FreeSmall(void* block);
  void FreeLarge(void* block);
  // Finds out which; nullptr is nothing to free.
  void Free(void* block);

  // Evicts nothing by itself: the next request that does not fit does.
  void SetBudget(Bytes budget);
  void SetPressureHandler(PressureHandler handler) { on_pressure_ = handler; }
  void SetOverrunHandler(OverrunHandler handler) { on_overrun_ = handler; }

  Ledger& ledger() { return ledger_; }
  // Bytes of a large block that may be read and written; 0 for other addresses.
  Bytes SizeOf(const void* block) const { return arena_.SizeOf(block); }
  ArenaBytes arena_stats() const { return arena_.Stats(); }

  // For pthread_atfork: before the fork, and after it in parent and child. The
  // child inherits blocks and counts, and may allocate and free.
  void BeforeFork();
  void AfterFork();

 private:
  void* AllocateLarge(Bytes size, Kind kind);
  void Admit(Bytes size, Kind kind);
  bool Relieve(Bytes needed);
  Bytes ArenaCap() const;
  void NotePeak(int64_t large);

  Ledger ledger_;
  std::atomic<int64_t> large_ = 0;  // bytes of large blocks
  // Most of them in the last kWindow requests or fewer, and in those before.
  std::atomic<int64_t> peak_ = 0;
  std::atomic<int64_t> peak_before_ = 0;
  std::atomic<int64_t> requests_ = 0;  // for large blocks
  Arena arena_;
  std::atomic<int64_t> cap_ = Count(kNoBudget);  // last given to the arena
  std::atomic<PressureHandler> on_pressure_ = nullptr;
  std::atomic<OverrunHandler> on_overrun_ = nullptr;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_HOST_ALLOCATOR_H_
