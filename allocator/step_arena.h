// A planned arena beside an allocator that does without plans: first only in
// thought, then in its place.
//
//   kRecording       the allocator serves, and what steps ask for is traced
//   kCounterfactual  a step repeats: an arena laid out for it is asked, too,
//                    what it would have done, and does not serve. Where
//                    it is wrong and steps repeat otherwise, or blocks live
//                    longer, it is laid out anew for that.
//   kServing         it did what the plan says for kCleanSteps in a row: it has
//                    memory and serves; what it has no room for is for the
//                    allocator
//   kLeaving         kBadSteps in a row were not as planned, or a request found
//                    no room anywhere: the allocator serves, and where that has
//                    no room, what is free of the arena. Its memory is given
//                    back when its last block is freed, and where a request
//                    has no room, all of it that nothing lies in.
//   kOff             after kMostRetreats retreats: that it left, that its
//                    memory could not be had, or that what it thought was not
//                    what happened, again and again. Until an arena is not
//                    wanted for a step, which is a new begin.
//
// It holds what its plan uses of its memory. What its allocator cannot have
// back, because it is too little for a block, are *ends*.
//
// What is alive when a step begins the allocator has when the arena begins to
// serve. It has a place in the plan from the next request on. Where there is no
// memory for that meanwhile, it is *carried*: served from an end or in a run of
// its own, each taken when it is asked for next and kept from then on.
//
// Thread-safe, but for BeginStep, which one thread calls at a time. Allocate
// and Free take one lock while the arena serves.
#ifndef EBBTIDE_ALLOCATOR_STEP_ARENA_H_
#define EBBTIDE_ALLOCATOR_STEP_ARENA_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "allocator/arena_fit.h"
#include "allocator/arena_space.h"
#include "allocator/planned_arena.h"
#include "allocator/step_trace.h"
#include "planner/units.h"

namespace ebbtide {

// Where an arena has its memory from. Runs are in whole kArenaGrain, and no
// work that is queued on any stream uses them. No lock of the arena's is held.
class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;
  // Those three append to `runs` what they take, also where they fail after
  // that.
  // What the allocator has and cannot give back, because of what lies beside
  // it.
  virtual absl::Status TakeHoles(std::vector<ArenaRun>* runs) = 0;
  // The same of what only small blocks fit in; behind TakeHoles.
  virtual absl::Status TakeSmallHoles(std::vector<ArenaRun>* runs) = 0;
  // One run of at least so many bytes; behind TakeHoles. ResourceExhausted
  // where there is no memory for it.
  virtual absl::Status Take(Bytes size, std::vector<ArenaRun>* runs) = 0;
  // Of a run that nothing lies in yet, what is behind so many bytes (positive)
  // goes back, as far as the allocator can have it; what is left may lie
  // elsewhere then. Where this fails `run` is what there still is of it: empty,
  // or in use by what is queued.
  virtual absl::Status Shorten(Bytes size, ArenaRun* run) = 0;
  // A run for blocks of the size on that stream alone; what is queued on it may
  // still use it. nullopt where the allocator is to serve.
  virtual std::optional<ArenaRun> TakeFor(Bytes size, int stream) = 0;
  // What is queued on any stream may still use them. False, and nothing is
  // done, where this is not the time.
  virtual bool GiveBack(absl::Span<const ArenaRun> runs) = 0;
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
    // Of the last layout, without walls and ends; 0: there was none.
    Bytes height{};
    Bytes bound{};  // that no layout is below
    Bytes size{};   // of the memory that it has now
    int runs = 0;   // that this is in
    // What is carried, in those.
    int carried = 0;
    Bytes carried_bytes{};
    // What the allocator had beside this when the second step began that it
    // served: of its memory, and of that what was alive. Its owner knows.
    Bytes beside{};
    Bytes beside_alive{};
    int retreats = 0;
    std::string reason;  // of the last retreat, or of kOff
    ArenaCounts counts;  // since it last began to serve, or to think
    // While it served: requests that were not as planned, by the op that made
    // them, or by the one that the plan had there.
    struct Mismatches {
      int64_t requests = 0;
      int64_t bytes = 0;
    };
    std::map<std::string, Mismatches> mismatches_by_op;
  };
  // Blocks that are carried. More are left to the allocator.
  static constexpr size_t kMostCarried = 512;
  // More names are kOtherOps.
  static constexpr size_t kMostNames = 64;
  static constexpr char kOtherOps[] = "others";

  // The op that this thread is in; empty: nobody knows. No lock of the arena's
  // is held.
  using NameOp = std::string (*)();

  // Both outlive this. `name_op` may be nullptr.
  StepArena(ArenaMemory* memory, ArenaOrder* order, NameOp name_op = nullptr)
      : memory_(*memory), order_(*order), name_op_(name_op) {}
  ~StepArena();
  StepArena(const StepArena&) = delete;
  StepArena& operator=(const StepArena&) = delete;

  // A step ends and the next one begins. `is_wanted`: an arena is of use; a
  // step without that is as good as one that is not as planned.
  void BeginStep(bool is_wanted);

  // As those of PlannedArena; nullptr where the allocator is to serve.
  void* Allocate(Bytes size, int stream);
  void* AllocateAnywhere(Bytes size, int stream);
  bool Free(void* block, absl::Span<const int> others);

  // The allocator has no room for a request, nor has this: it leaves, and what
  // nothing lies in goes back. False where that is nothing.
  bool GiveUpIdle();

  // The allocator has served the request, and gets the block back. May be
  // called with a lock of the allocator's held.
  void OnAllocate(const void* block, Bytes size, int stream);
  void OnFree(const void* block);

  // Whether the address is the arena's now. Of blocks that are live it does not
  // change.
  bool Owns(const void* address) const;
  bool HasMemory() const { return space_.load() != nullptr; }
  // The run that the address is in; it is the arena's.
  ArenaRun RunOf(const void* address) const;
  bool IsLeaving() const { return state_ == State::kLeaving; }
  Facts facts() const;

 private:
  std::string OpName() const { return name_op_ == nullptr ? "" : name_op_(); }
  void NoteMismatch(int slot, Bytes size);
  void* ServeCarried(PlannedArena* arena, int slot, Bytes size, int stream);
  bool MayCarry(int slot) const;
  std::optional<ArenaRun> TakeEnd(Bytes size);
  std::optional<ArenaRun> TakeRunFor(Bytes size, int stream);
  const ArenaSpace* Publish(ArenaSpace space);
  void Judge(bool is_wanted);
  void Leave(PlannedArena* arena, std::string reason, bool is_retreat);
  bool Withdraw(const PlannedArena* arena, absl::Span<const ArenaRun> runs);
  void Release();
  bool GiveBackOrKeep(const std::vector<ArenaRun>& runs);
  void GiveBackKept();
  void Record(bool is_wanted);
  void Think();
  void ThinkOf(std::vector<StepRequest> step);
  void TakeOver();
  absl::StatusOr<ArenaFit> TakeMemory(std::vector<ArenaRun>* runs);
  absl::StatusOr<ArenaFit> TakeBesideHoles(Carried carried,
                                           std::vector<ArenaRun>* runs);
  absl::StatusOr<ArenaFit> TakeInsteadOfHoles(Carried carried,
                                              std::vector<ArenaRun>* runs);
  absl::Status HoldWhatIsUsed(const std::vector<Bytes>& used, Bytes fallback,
                              std::vector<ArenaRun>* runs);
  void Retry(bool is_retreat = true);

  ArenaMemory& memory_;
  ArenaOrder& order_;
  const NameOp name_op_;
  std::atomic<State> state_ = State::kRecording;
  std::atomic<bool> is_traced_ = false;

  // While it has memory.
  std::atomic<PlannedArena*> arena_ = nullptr;
  std::atomic<const ArenaSpace*> space_ = nullptr;

  // Of BeginStep's thread. These are kept after their end, because another
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
  bool is_retreat_ = false;        // that it is leaving
  int in_a_row_ = 0;               // retreats
  std::vector<StepRequest> step_;  // that repeats
  // All that there were: another thread may just be looking at one.
  std::vector<std::unique_ptr<const ArenaSpace>> spaces_;
  std::vector<ArenaRun> ends_;  // what is left of them
  std::vector<ArenaRun> kept_;  // that could not be given back yet
  std::unique_ptr<PlannedArena> thought_;
  absl::flat_hash_map<const void*, void*> thought_of_;  // by real block
  Facts facts_;
};

const char* NameOf(StepArena::State state);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_STEP_ARENA_H_
