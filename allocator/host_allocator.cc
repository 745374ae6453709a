#include "allocator/host_allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "allocator/small_blocks.h"

namespace ebbtide {
namespace {

thread_local bool in_handler = false;

// Marks this thread as inside a handler, also when the handler throws.
class HandlerScope {
 public:
  HandlerScope() { in_handler = true; }
  ~HandlerScope() { in_handler = false; }
};

// True if the machine has less memory than that, and refuses it.
bool IsBeyondTheMachine(Bytes size) {
  static const int64_t memory =
      int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (Count(size) <= memory) return false;
  void* const block = mmap(nullptr, Count(size), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED || munmap(block, Count(size)) != 0;
}

}  // namespace

HostAllocator& HostAllocator::Global() {
  static HostAllocator* const allocator = new HostAllocator;
  return *allocator;
}

void* HostAllocator::Allocate(size_t size, Kind kind) {
  if (size >= kLarge) {
    // No machine has such an amount; adding to it would overflow.
    if (size > static_cast<size_t>(INT64_MAX) / 2) return nullptr;
    return AllocateLarge(RoundUpToPage(Bytes{static_cast<int64_t>(size)}),
                         kind);
  }
  if (size == 0) return nullptr;
  void* const block = AllocateSmallBlock(size);
  if (block == nullptr) return nullptr;
  const Bytes usable{static_cast<int64_t>(UsableBytes(block))};
  if (ledger_.TryTake(usable)) return block;
  absl::Cleanup refuse = [block] { FreeSmallBlock(block); };
  Admit(usable, Kind::kOther);
  std::move(refuse).Cancel();
  return block;
}

void* HostAllocator::AllocateLarge(Bytes size, Kind kind) {
  // Nothing is evicted for it, and it is in no peak.
  if (IsBeyondTheMachine(size)) return nullptr;
  Admit(size, kind);
  NotePeak(large_ += Count(size));
  if (const Bytes cap = ArenaCap(); Count(cap) != cap_.exchange(Count(cap))) {
    arena_.SetCap(cap);
  }
  void* block = arena_.Allocate(size);
  while (block == nullptr && Relieve(size)) block = arena_.Allocate(size);
  if (block != nullptr) {
    try {
      ledger_.Enter(block, size, kind);
      return block;
    } catch (const std::bad_alloc&) {
      arena_.Free(block);
    }
  }
  ledger_.Give(size, kind);
  large_ -= Count(size);
  return nullptr;
}

void HostAllocator::FreeSmall(void* block) {
  const Bytes usable{static_cast<int64_t>(UsableBytes(block))};
  FreeSmallBlock(block);
  ledger_.Give(usable);
}

// The entry leaves before the address can be handed out again, the bytes are
// given back after the pages are free.
void HostAllocator::FreeLarge(void* block) {
  const Ledger::Entry entry = ledger_.Leave(block);
  if (!arena_.Free(block)) return;
  large_ -= Count(entry.bytes);
  ledger_.Give(entry);
}

void HostAllocator::Free(void* block) {
  if (block == nullptr) return;
  const bool may_be_large = reinterpret_cast<uintptr_t>(block) % kPageSize == 0;
  if (may_be_large && arena_.SizeOf(block) != Bytes{0}) {
    FreeLarge(block);
  } else {
    FreeSmall(block);
  }
}

void HostAllocator::SetBudget(Bytes budget) {
  ledger_.SetBudget(budget);
  const Bytes cap = ArenaCap();
  cap_ = Count(cap);
  arena_.SetCap(cap);
}

void HostAllocator::BeforeFork() {
  ledger_.LockForFork();
  arena_.LockForFork();
}

void HostAllocator::AfterFork() {
  arena_.UnlockForFork();
  ledger_.UnlockForFork();
}

// Counts `size` in the ledger, after evictions if need be. Throws only what the
// overrun handler throws, with nothing counted.
void HostAllocator::Admit(Bytes size, Kind kind) {
  for (;;) {
    if (ledger_.TryTake(size, kind)) return;
    const Bytes needed = ledger_.live() + size - ledger_.budget();
    if (!Relieve(needed)) break;
  }
  if (const OverrunHandler handler = on_overrun_; handler && !in_handler) {
    HandlerScope scope;
    handler(ledger_.live() + size, ledger_.budget());
  }
  ledger_.Take(size, kind);
}

bool HostAllocator::Relieve(Bytes needed) {
  const PressureHandler handler = on_pressure_;
  if (handler == nullptr || in_handler) return false;
  HandlerScope scope;
  return handler(needed);
}

// Peaks that threads note at the same time may be mixed up by one window.
void HostAllocator::NotePeak(int64_t large) {
  if (++requests_ % kWindow == 0) peak_before_ = peak_.exchange(large);
  int64_t peak = peak_;
  while (large > peak && !peak_.compare_exchange_weak(peak, large)) {
  }
}

// The arena may keep what small blocks leave of the budget.
Bytes HostAllocator::ArenaCap() const {
  const int64_t peak = std::max(peak_.load(), peak_before_.load());
  const Bytes recent{peak + peak / 8};
  const Bytes budget = ledger_.budget();
  if (budget == kNoBudget) return recent;
  return std::min(recent, budget - (ledger_.live() - Bytes{large_.load()}));
}

}  // namespace ebbtide
