// Measures a pair while it is recorded: the time and the bytes of every op and
// of every backward op, and when the script releases each storage. The result
// is the planner's profile.
#ifndef EBBTIDE_HOOKS_WATCH_H_
#define EBBTIDE_HOOKS_WATCH_H_

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hooks/kernel_times.h"
#include "hooks/queued_times.h"
#include "hooks/residency.h"
#include "hooks/run_log.h"
#include "hooks/tape.h"
#include "planner/profile.h"

namespace ebbtide {

// Where a step lies in its stream, on a device whose work is queued.
struct StepMarks {
  std::shared_ptr<const TimeMark> begin;
  std::shared_ptr<const TimeMark> tail;  // backward has been queued
  std::shared_ptr<const TimeMark> end;   // the next step's begin
};

class Watch {
 public:
  explicit Watch(const Residency* residency) : residency_(*residency) {}

  // `by_work`: the times are to be those of the device's work (kernel_times.h).
  // `with_marks`: they are measured at all where work is queued; otherwise what
  // the tape has are estimates.
  void BeginPair(Tape* tape, bool by_work, bool with_marks);
  void BeginOp(absl::string_view name);
  // Before anything else that allocates.
  void EndOp(int op);
  // A saved tensor of the tape is asked for. Returns the stage it belongs to.
  int Ask(int storage, const torch::autograd::Node* node);
  // The storage was returned. The time taken to restore it is not the backward
  // op's; it is none if the storage `was_there`.
  void Give(bool was_there) {
    const bool is_first = std::exchange(awaits_first_, false);
    if (is_first || !was_there) BeginMarks();
  }
  bool has_marks() const { return has_marks_; }  // as BeginPair was given it
  // Takes over the times of the ops that have run.
  void Poll() { queued_.Poll(); }
  void EndBackward();
  // The next pair begins: what was measured in between is the tail.
  void EndStep();
  // Marks of the step that ended last; nullptr if times are the host's.
  const std::shared_ptr<const StepMarks>& step_marks() const { return ended_; }

  KernelTimes& kernels() { return kernels_; }
  // Work of the step that ended last, if its times are those of the device's
  // work.
  const std::optional<StepWork>& work() const { return work_; }

  // Bytes outside forward and backward, and the host's time of the step less
  // what ebbtide itself took of it, after EndStep.
  Bytes tail() const { return tail_; }
  double step_nanoseconds() const { return step_nanoseconds_; }

 private:
  Ledger& ledger() const;
  void BeginMarks();
  void CloseStage();
  void NoteReleased(int instant);
  // Nanoseconds since `begin` less what ebbtide itself took in the meantime.
  double Since(int64_t begin, double own) const;

  const Residency& residency_;
  QueuedTimes queued_;
  KernelTimes kernels_;
  std::optional<StepWork> work_;
  Tape* tape_ = nullptr;
  int device_ = 0;
  bool has_marks_ = false;
  std::vector<int> held_;       // storages that the script may hold
  int seen_ = 0;                // storages looked at for `held_`
  int name_ = RunLog::kNoName;  // name in the trace of the op or stage
  bool awaits_first_ = false;   // the open stage, what it has asked for first
  int64_t began_ = 0;
  double own_ = 0;
  Bytes other_{};
  int64_t step_began_ = 0;
  double step_own_ = 0;
  Bytes tail_{};
  double step_nanoseconds_ = 0;
  std::shared_ptr<StepMarks> open_;         // marks of the step that has begun
  std::shared_ptr<const StepMarks> ended_;  // marks of the step before
  std::shared_ptr<const TimeMark> mark_;    // between the two
};

// The planner's view of a measured pair. Value i of the profile is storage
// `storages[i]` of the tape; ops and stages have the tape's indices.
struct MeasuredProfile {
  Profile profile;
  std::vector<int> storages;
};
MeasuredProfile BuildProfile(const Tape& tape, const Watch& watch,
                             const HostTier* tier);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_WATCH_H_
