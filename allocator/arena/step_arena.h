// `StepArena` finds the step that repeats and has a page arena
// (allocator/arena/page_arena.h) serve it from planned addresses.
//
//   kRecording  by demand; the requests of steps are traced
//   kServing    as planned, since two steps in a row made the same requests.
//               Where steps repeat that are not as planned, or blocks live
//               longer, the plan is laid out anew for those. Where the job
//               follows another plan of its own, its steps are traced by
//               demand again.
//   kOff        by demand, where the layout finds no room, or after
//               kMostRetreats retreats in a row: kBadSteps in a row were not as
//               planned, or memory was missing beside the plan. Until the job
//               follows another plan of its own or none, which is a new begin.
//
// Blocks that are alive when a plan begins stay where they are; they have a
// place in it from their next request on.
//
// Thread-safe, but for BeginStep, which one thread calls at a time.
#ifndef EBBTIDE_ALLOCATOR_ARENA_STEP_ARENA_H_
#define EBBTIDE_ALLOCATOR_ARENA_STEP_ARENA_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "allocator/arena/page_arena.h"
#include "allocator/arena/step_trace.h"
#include "planner/units.h"

namespace ebbtide {

class StepArena {
 public:
  enum class State { kRecording, kServing, kOff };
  // As many as steps need to settle once they are served: those that were short
  // of memory are so no more, and ask for other blocks.
  static constexpr int kBadSteps = 8;
  // So many in a row; kForgiven steps as planned are a new begin.
  static constexpr int kMostRetreats = 3;
  static constexpr int kForgiven = 1000;

  struct Facts {
    State state = State::kRecording;
    // Height of the last layout; 0: there was none.
    Bytes height{};
    Bytes bound{};  // that no layout is below
    // Bytes that the layout needs beyond the room there is; 0: it was served.
    Bytes lacking{};
    // Bytes on the device beside the plan when the second step began that it
    // served: reserved ones, and the live part. The owner sets them.
    Bytes beside{};
    Bytes beside_alive{};
    int retreats = 0;
    std::string reason;  // reason of the last retreat, or of kOff
    PageArena::Facts pages;
    // While it served: requests that were not as planned, by the op that made
    // them, or by the one that the plan had there.
    struct Mismatches {
      int64_t requests = 0;
      int64_t bytes = 0;
    };
    std::map<std::string, Mismatches> mismatches_by_op;
  };
  // More names are kOtherOps.
  static constexpr size_t kMostNames = 64;
  static constexpr char kOtherOps[] = "others";

  // The op that this thread is in; empty where there is none. No lock of the
  // arena's is held.
  using NameOp = std::string (*)();

  // `pages` outlives this. `name_op` may be nullptr.
  explicit StepArena(PageArena* pages, NameOp name_op = nullptr)
      : pages_(*pages), name_op_(name_op) {}
  StepArena(const StepArena&) = delete;
  StepArena& operator=(const StepArena&) = delete;

  // A step ends and the next one begins. `plan`: the number of the plan that
  // the job followed in the step that ends; 0: none, so that planned addresses
  // are of no use, and the step is as good as one that is not as planned.
  void BeginStep(int64_t plan);

  // The job has given up the plan that its last steps followed: the step that
  // begins is served by demand. After BeginStep, before the step's requests.
  void EndPlan();

  // As those of PageArena. `is_last`: there is nothing more to free for the
  // request, which is served by demand, wherever the plan has it. If that needs
  // the holes between the plan's blocks, the plan ends.
  void* Allocate(Bytes size, int stream, bool is_last = false,
                 PageArena::By by = PageArena::By::kForward);
  bool Free(void* block, absl::Span<const int> others,
            absl::Span<const StreamMark> ends = {});

  // Steps that the plan has served, the one that goes on included. For
  // BeginStep's thread only.
  int64_t steps_served() const {
    return state_ == State::kServing ? steps_served_ : 0;
  }
  // True where a plan may come to be served that is not yet: the last step was
  // not as planned, or is the first one that a plan serves.
  bool IsTrying() const {
    return state_ != State::kOff && (state_ != State::kServing || is_traced_);
  }
  Facts facts() const;

 private:
  std::string OpName() const { return name_op_ == nullptr ? "" : name_op_(); }
  void* AllocateLast(Bytes size, int stream, PageArena::By by);
  void NoteMismatch(int slot, Bytes size);
  void Trace(const void* block, Bytes size, int stream);
  void GiveUpPlan();
  void Judge(int64_t plan);
  bool IsDueAnew(bool is_wrong, bool is_bad);
  void Record(bool is_wanted);
  Bytes RoomForPlan() const;
  void TakeOver();
  void TurnOff(std::string reason);
  void Retry(bool is_retreat);

  PageArena& pages_;
  const NameOp name_op_;
  std::atomic<State> state_ = State::kRecording;
  std::atomic<bool> is_traced_ = false;

  // Used by BeginStep's thread only.
  ArenaCounts judged_;  // at the begin of the step
  int bad_steps_ = 0;
  int64_t good_steps_ = 0;
  int64_t steps_served_ = 0;
  int64_t served_plan_ = 0;  // the job's plan that was laid out

  // Never held while the page arena is called.
  mutable std::mutex mutex_;
  StepTrace trace_;
  int in_a_row_ = 0;               // retreats
  int layouts_ = 0;                // layouts of a plan that is served
  std::vector<StepRequest> step_;  // that repeats
  Facts facts_;
};

const char* NameOf(StepArena::State state);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_ARENA_STEP_ARENA_H_
