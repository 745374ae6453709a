// A planned arena beside an allocator that does without plans: first only in
// thought, then in its place.
//
//   kRecording       the allocator serves, and what steps ask for is traced
//   kCounterfactual  a step repeats: an arena laid out for it is asked, too,
//                    what it would have done, and does not serve
//   kServing         it did what the plan says for kCleanSteps in a row: it has
//                    memory and serves; what it has no room for is for the
//                    allocator
//   kLeaving         kBadSteps in a row were not as planned: the allocator
//                    serves, and where that has no room, what is free of the
//                    arena. Its memory is given back when its last block is
//                    freed.
//   kOff             after kMostRetreats retreats: that it left, that its
//   memory
//                    could not be had, or that what it thought was not what
//                    happened, again and again. Until an arena is not wanted
//                    for a step, which is a new begin.
//
// Thread-safe, but for BeginStep, which one thread calls at a time. Allocate
// and Free take one lock while the arena serves.
#ifndef EBBTIDE_ALLOCATOR_STEP_ARENA_H_
#define EBBTIDE_ALLOCATOR_STEP_ARENA_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/planned_arena.h"
#include "allocator/step_trace.h"
#include "planner/units.h"

namespace ebbtide {

// Where an arena has its memory from. No lock of the arena's is held.
class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;
  // At least so many bytes, in whole kArenaGrain, which no work that is queued
  // on any stream uses.
  virtual absl::StatusOr<char*> Take(Bytes size) = 0;
  // What is queued on any stream may still use them. False, and nothing is
  // done, where this is not the time.
  virtual bool GiveBack(char* base) = 0;
};

class StepArena {
 public:
  enum class State { kRecording, kCounterfactual, kServing, kLeaving, kOff };
  static constexpr int kCleanSteps = 3;
  static constexpr int kBadSteps = 2;
  // Of so many in a row; kForgiven steps as planned are a new begin.
  static constexpr int kMostRetreats = 3;
  static constexpr int kForgiven = 1000;

  struct Facts {
    State state = State::kRecording;
    Bytes height{};  // of the last layout; 0: there was none
    Bytes bound{};   // that no layout is below
    Bytes size{};    // of the memory that it has now
    int retreats = 0;
    std::string reason;  // of the last retreat, or of kOff
    ArenaCounts counts;  // since it last began to serve, or to think
  };

  // Both outlive this.
  StepArena(ArenaMemory* memory, ArenaOrder* order)
      : memory_(*memory), order_(*order) {}
  ~StepArena();
  StepArena(const StepArena&) = delete;
  StepArena& operator=(const StepArena&) = delete;

  // A step ends and the next one begins. `is_wanted`: an arena is of use; a
  // step without that is as good as one that is not as planned.
  void BeginStep(bool is_wanted);

  // As those of PlannedArena; nullptr where the allocator is to serve.
  void* Allocate(Bytes size, int stream, bool* is_unplaced = nullptr);
  void* AllocateAnywhere(Bytes size, int stream);
  bool Free(void* block, absl::Span<const int> others);

  // The allocator has served the request, and gets the block back. May be
  // called with a lock of the allocator's held.
  void OnAllocate(const void* block, Bytes size, int stream);
  void OnFree(const void* block);

  // Whether the address is the arena's now. Of blocks that are live it does not
  // change.
  bool Owns(const void* address) const;
  // Where its memory begins; nullptr: it has none.
  char* base() const { return base_; }
  bool IsLeaving() const { return state_ == State::kLeaving; }
  Facts facts() const;

 private:
  void Judge(bool is_wanted);
  void Leave(std::string reason, bool is_retreat);
  void Release();
  void Record(bool is_wanted);
  void Think();
  void TakeOver();
  void Retry(bool is_retreat = true);

  ArenaMemory& memory_;
  ArenaOrder& order_;
  std::atomic<State> state_ = State::kRecording;
  std::atomic<bool> is_traced_ = false;

  // While it has memory.
  std::atomic<PlannedArena*> arena_ = nullptr;
  std::atomic<char*> base_ = nullptr;
  std::atomic<int64_t> size_ = 0;

  // Of BeginStep's thread. Arenas are kept after their end, because another
  // thread may just be asking one, which then says no.
  std::vector<std::unique_ptr<PlannedArena>> arenas_;
  ArenaCounts judged_;  // at the begin of the step
  int clean_steps_ = 0;
  int unclean_steps_ = 0;
  int bad_steps_ = 0;
  int64_t good_steps_ = 0;

  // Never held while the allocator or the memory is called.
  mutable std::mutex mutex_;
  StepTrace trace_;
  bool is_retreat_ = false;  // that it is leaving
  int in_a_row_ = 0;         // retreats
  std::optional<StepLayout> layout_;
  std::unique_ptr<PlannedArena> thought_;
  absl::flat_hash_map<const void*, void*> thought_of_;  // by real block
  Facts facts_;
};

const char* NameOf(StepArena::State state);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_STEP_ARENA_H_
