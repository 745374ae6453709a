// The bytes alive on the device tier, exactly, against the budget.
//
// Small blocks are counted (Take, Give) and nothing else is known of them: they
// are kOther. Large blocks are entered by address and have a kind, which may
// change while they live.
//
// Peaks are exact: every value that the live total takes is compared with them,
// from whichever thread. The peak of `other` (below) is exact while blocks are
// retagged by the thread that allocates; else it may miss a block in flight.
//
// Thread-safe. Take and Give are lock-free; the large blocks' table has one
// mutex. Nothing here allocates except Enter and Largest.
#ifndef EBBTIDE_ALLOCATOR_LEDGER_H_
#define EBBTIDE_ALLOCATOR_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/units.h"
#include "profiler/kind.h"

namespace ebbtide {

inline constexpr Bytes kNoBudget{std::numeric_limits<int64_t>::max()};

class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void SetBudget(Bytes budget) { budget_ = Count(budget); }
  Bytes budget() const { return Bytes{budget_.load()}; }
  // live + bytes > budget.
  bool WouldExceed(Bytes bytes) const {
    return Count(bytes) > budget_ - Count(live());
  }

  // Counts bytes if they fit into the budget; false, and nothing, if not. No
  // interleaving of threads takes more than the budget.
  bool TryTake(Bytes bytes, Kind kind = Kind::kOther);
  // Counts bytes that are taken whatever the budget says.
  void Take(Bytes bytes, Kind kind = Kind::kOther);
  void Give(Bytes bytes, Kind kind = Kind::kOther);

  // Enters a large block whose bytes were counted as `kind` before. Throws
  // std::bad_alloc, and enters nothing, if the table cannot grow.
  void Enter(const void* block, Bytes bytes, Kind kind);

  // Counts and enters a block.
  void OnAllocate(const void* block, Bytes bytes, Kind kind) {
    Take(bytes, kind);
    Enter(block, bytes, kind);
  }
  // An entry taken out by Leave; its bytes stay counted until Give. Zero bytes
  // if the block is not entered.
  struct Entry {
    Bytes bytes{};
    Kind kind = Kind::kOther;
    int64_t joined_in = -1;  // the window in which it left the other bytes
    int64_t number = -1;     // the observer's
  };
  Entry Leave(const void* block);
  // Gives back the bytes of what Leave has taken out, and calls the observer.
  void Give(const Entry& entry);
  // Takes a block out and gives its bytes back; 0 if it is not entered.
  Bytes OnFree(const void* block);
  // Moves a live block's bytes to another kind; false if it is not entered.
  bool Retag(const void* block, Kind kind);
  // The `most` largest of the entered blocks, the largest first.
  struct Block {
    const void* address = nullptr;
    Bytes bytes{};
    Kind kind = Kind::kOther;
  };
  std::vector<Block> Largest(size_t most) const;
  // Bytes of an entered block, or 0.
  Bytes SizeOf(const void* block) const { return EntryOf(block).bytes; }

  Bytes live() const { return Bytes{live_.load()}; }
  // All kinds at one moment when nothing changes meanwhile; the sum is then
  // live().
  BytesByKind LiveByKind() const;

  // Peaks of live() since the last ResetPeak (a step) and over the run.
  Bytes Peak() const { return Bytes{step_peak_.load()}; }
  Bytes RunPeak() const { return Bytes{run_peak_.load()}; }
  // Begins a window as well.
  void ResetPeak();

  // A window is a shorter stretch inside a step, such as one op. `Other` leaves
  // out what plans move about: live - kSaved - kScratch. Blocks that become one
  // of these inside the window count as other until it ends, freed or not: an
  // op saves its inputs before its kernel has taken its peak.
  void BeginWindow();
  Bytes WindowPeakOther() const { return Bytes{window_peak_other_.load()}; }

  // Called with large blocks, on the thread that made the change, with the live
  // bytes then. It must not call the ledger.
  struct Observer {
    // Returns a number >= 0 for the block, or -1: makes no more calls for it.
    int64_t (*on_enter)(const void* block, Bytes bytes, Kind kind, Bytes live);
    void (*on_retag)(int64_t number, Kind kind, Bytes live);
    void (*on_give)(int64_t number, Bytes bytes, Bytes live);
  };
  // It must live for ever, and is called at once for entered blocks. nullptr:
  // none, and no lock is taken.
  void SetObserver(const Observer* observer);
  // The observer's number of an entered block, or -1.
  int64_t NumberOf(const void* block) const { return EntryOf(block).number; }

  // Around fork(): no other thread is inside the table between the two.
  void LockForFork() { mutex_.lock(); }
  void UnlockForFork() { mutex_.unlock(); }

 private:
  Entry EntryOf(const void* block) const;
  void Compare(int64_t live);
  void CountKind(Kind kind, int64_t change);

  // Members that every allocation touches, on one cache line.
  alignas(64) std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> budget_ = Count(kNoBudget);
  std::atomic<int64_t> left_out_ = 0;  // kSaved + kScratch
  std::atomic<int64_t> joined_ = 0;    // bytes that became so in this window
  std::atomic<int64_t> window_peak_other_ = 0;
  // step <= run: a step's peak that is not exceeded settles both.
  std::atomic<int64_t> step_peak_ = 0;
  std::atomic<int64_t> run_peak_ = 0;

  alignas(64) mutable std::mutex mutex_;
  absl::flat_hash_map<const void*, Entry> blocks_;
  std::atomic<int64_t> window_ = 0;  // counts them
  // Not used for kOther, which is what remains of live_.
  std::atomic<int64_t> by_kind_[kKinds] = {};
  std::atomic<const Observer*> observer_ = nullptr;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_LEDGER_H_
