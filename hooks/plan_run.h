// Follows a plan through one pair.
#ifndef EBBTIDE_HOOKS_PLAN_RUN_H_
#define EBBTIDE_HOOKS_PLAN_RUN_H_

#include <memory>
#include <vector>

#include "hooks/residency.h"
#include "hooks/steady.h"
#include "hooks/tape.h"
#include "hooks/watch.h"
#include "planner/plan.h"
#include "planner/simulate.h"

namespace ebbtide {

// A plan in terms of the tape it was made from: equal hashes mean equal ops on
// equal storages, so the indices of a later tape are the same.
struct TapePlan {
  struct Step {
    Action::Do what = Action::Do::kFree;
    int index = 0;  // storage, or op to recompute
    // For an offload: the instant by which its bytes are freed. Instants are
    // the ops and, after them, the stages (planner/profile.h).
    int until = 0;
  };
  // Identifies the plan in the process, 1 or more; kept when it is priced anew.
  int64_t number = 0;
  Plan plan;
  Simulation simulation;         // from when it was made
  Time base{};                   // time of its step with nothing evicted
  Bytes offloaded{};             // by all copies out
  std::vector<uint64_t> hashes;  // after op i
  std::vector<std::vector<Step>> after_op;  // between op i and the next
  std::vector<std::vector<Step>> before_stage;
  std::vector<std::vector<int>> outputs;     // storages made by op i
  std::vector<std::vector<int>> needs;       // storages that backward op t
                                             // reads
  std::vector<SaveMark> saves;               // without what is left to PyTorch
  std::shared_ptr<const SteadyPlan> steady;  // nullptr: needs the recorder
};

// All of it but the plan and its steps, from the tape that `measured` is of.
TapePlan BindTape(const Tape& tape, const MeasuredProfile& measured);
// Sorts the actions of `bound->plan`, made from that profile, into steps. Needs
// no tape: for the planning thread.
void DistributeActions(const MeasuredProfile& measured, TapePlan* bound);

class PlanRun {
 public:
  PlanRun(std::shared_ptr<const TapePlan> plan, std::shared_ptr<Tape> tape,
          Residency* residency);
  ~PlanRun();
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  // The plan was recognised after the first `ops` ops, which were as planned:
  // does what is left of its steps for them.
  void CatchUp(int ops);
  void OnOpEnd(int op);
  void OnStage(int stage);

  // True once the step has differed from the plan; nothing is done from there
  // on.
  bool diverged() const { return diverged_; }
  // The plan has ops beyond these.
  bool ExpectsMoreThan(size_t ops) const { return plan_->hashes.size() > ops; }

 private:
  void Arrive(int instant);
  void Execute(const std::vector<TapePlan::Step>& steps);
  void DoOrWait(const TapePlan::Step& step);
  bool Do(const TapePlan::Step& step);
  void RunAgain(int op);
  void Hold(int storage);
  void Release(int storage);

  const std::shared_ptr<const TapePlan> plan_;
  const std::shared_ptr<Tape> tape_;
  Residency& residency_;
  std::vector<TapePlan::Step> waiting_;  // steps that wait for the script to
                                         // release a storage
  std::vector<int> holds_;               // storages that only the plan asks for
  bool diverged_ = false;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PLAN_RUN_H_
