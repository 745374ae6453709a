// The steady state: pairs that follow a plan which only moves bytes, with the
// recorder off.
//
// Saved tensors are known by their position among the saves of a pair. Each is
// checked against the recorded pair: autograd's sequence number (every node of
// the graph counts one), element count, type and storage. The first that
// differs ends it for the pair: from there on everything is kept and evicted on
// demand. A plan that recomputes never gets here, because a Python number that
// has changed inside a recipe would go unseen (docs/decisions/recompute.md).
#ifndef EBBTIDE_HOOKS_STEADY_H_
#define EBBTIDE_HOOKS_STEADY_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "allocator/ledger.h"
#include "hooks/tape.h"
#include "hooks/watch.h"
#include "planner/plan.h"
#include "planner/simulate.h"

namespace ebbtide {

struct SteadyPlan {
  // Saves of the recorded pair by position. `storage` is renumbered in the
  // order in which evictable storages are first saved; -1: left to PyTorch.
  std::vector<SaveMark> saves;
  size_t storages = 0;  // number of those storages
  struct Spill {
    int before_save = 0;  // the script has released it by then
    int storage = 0;      // as in `saves`
    int until = 0;        // SteadyRun::instant at which its bytes are freed
  };
  std::vector<Spill> spills;  // by before_save
  // By position of a save: an offload begins or ends there.
  std::vector<bool> has_spills;
  // From each instant to the next, below the plan's peak.
  std::vector<Bytes> room;
  // Storages to be brought back, by the stage before which that begins: of the
  // stages that ask for an evictable storage, in their order.
  std::vector<std::vector<int>> restores;
};

// The saves of a tape, with -1 for the storages that are left to PyTorch: those
// that are never evicted, as far as can be known when they are saved.
std::vector<SaveMark> EvictableSaves(const Tape& tape);

// From a plan and the tape it was made for; nullptr where the plan recomputes.
// `saves`: EvictableSaves of that tape.
std::shared_ptr<const SteadyPlan> MakeSteadyPlan(
    std::vector<SaveMark> saves, const MeasuredProfile& measured,
    const Plan& plan, const Simulation& simulation);

// For pairs like that of `tape` in which nothing is evicted; nullptr if none of
// its saves, which show that there is a backward, can be seen.
std::shared_ptr<const SteadyPlan> MakeKeepingPlan(const Tape& tape);

// One pair in the steady state. Used by the thread that owns the pair.
class SteadyRun {
 public:
  explicit SteadyRun(std::shared_ptr<const SteadyPlan> plan)
      : plan_(std::move(plan)) {}

  // Comes to the save at `position`. True if an offload begins or ends there.
  bool Reach(int position) {
    instant_ = position;
    return position < static_cast<int>(plan_->has_spills.size()) &&
           plan_->has_spills[position];
  }
  // True if PyTorch is to keep the tensor saved at `position`.
  bool IsNative(int position, uint64_t sequence);
  // The save at `position` became storage `storage` of the pair's tape.
  void Check(int position, const at::Tensor& tensor, int storage);
  // The op that makes the tensor saved there; empty if unknown.
  absl::string_view MakerOf(int position) const {
    return diverged_ ? absl::string_view() : plan_->saves[position].maker;
  }
  // For the trace (SaveMark::parameter).
  const void* ParameterBefore(int position) const {
    return diverged_ ? nullptr : plan_->saves[position].parameter;
  }
  // Storages to be offloaded before the save at `position`, each once.
  bool IsSpillDue(int position) const {
    return next_spill_ < plan_->spills.size() &&
           plan_->spills[next_spill_].before_save <= position;
  }
  const SteadyPlan::Spill& NextSpill() { return plan_->spills[next_spill_++]; }
  bool diverged() const { return diverged_; }
  // Saves so far and, in backward, stages. Tape::kNoPlan once it has diverged.
  int instant() const { return diverged_ ? Tape::kNoPlan : instant_; }
  Bytes room() const { return diverged_ ? kNoBudget : plan_->room[instant_]; }
  // Backward op `node` asks for a storage: those to be brought back by now that
  // were not due before.
  absl::Span<const int> RestoresDue(const void* node);
  // True if all saves were as planned, with `saves` of them made.
  bool IsOver(int saves) const {
    return !diverged_ && saves == static_cast<int>(plan_->saves.size());
  }

 private:
  const std::shared_ptr<const SteadyPlan> plan_;
  size_t next_spill_ = 0;
  size_t next_stage_ = 0;
  const void* node_ = nullptr;  // that has asked last
  int instant_ = 0;
  bool diverged_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_STEADY_H_
