#include "hooks/plan_run.h"

#include <algorithm>

#include "hooks/recovery.h"

namespace ebbtide {
TapePlan BindTape(const Tape& tape, const MeasuredProfile& measured) {
  TapePlan bound;
  bound.base = BaseTime(measured.profile);
  for (const TapeOp& op : tape.ops) bound.hashes.push_back(op.hash);
  for (const TapeStage& stage : tape.stages) {
    bound.needs.push_back(stage.needs);
  }
  bound.saves = EvictableSaves(tape);
  for (const Op& op : measured.profile.ops) {
    std::vector<int>& outputs = bound.outputs.emplace_back();
    for (int value : op.outputs) outputs.push_back(measured.storages[value]);
  }
  return bound;
}

void DistributeActions(const MeasuredProfile& measured, TapePlan* bound) {
  bound->steady = MakeSteadyPlan(std::move(bound->saves), measured, bound->plan,
                                 bound->simulation);
  const int ops = bound->hashes.size();
  bound->after_op.resize(ops);
  bound->before_stage.resize(bound->needs.size() + 1);
  int op = -1;
  int stage = 0;
  auto departure = bound->simulation.departures.begin();
  for (const Action& action : bound->plan.actions) {
    TapePlan::Step step = {action.what, action.index};
    switch (action.what) {
      case Action::Do::kForward:
        op = action.index;
        continue;
      case Action::Do::kBackward:
        stage = action.index + 1;
        continue;
      case Action::Do::kRecompute:
        break;
      default:
        step.index = measured.storages[action.index];
    }
    if (action.what == Action::Do::kOffload) step.until = *departure++;
    if (op < ops - 1) {
      bound->after_op[op].push_back(step);
    } else {
      bound->before_stage[stage].push_back(step);
    }
  }
}

PlanRun::PlanRun(std::shared_ptr<const TapePlan> plan,
                 std::shared_ptr<Tape> tape, Residency* residency)
    : plan_(std::move(plan)), tape_(std::move(tape)), residency_(*residency) {}

PlanRun::~PlanRun() {
  tape_->planned_instant = Tape::kNoPlan;
  while (!holds_.empty()) Release(holds_.back());
}

void PlanRun::CatchUp(int ops) {
  Arrive(ops);
  // In the forward pass plans only free and offload (planner/plan.h): what has
  // gone already is no work.
  for (int op = 0; op < ops; ++op) Execute(plan_->after_op[op]);
}

void PlanRun::OnOpEnd(int op) {
  if (diverged_) return;
  if (op >= static_cast<int>(plan_->hashes.size()) ||
      tape_->ops[op].hash != plan_->hashes[op]) {
    diverged_ = true;
    return;
  }
  Arrive(op + 1);
  std::erase_if(waiting_, [this](const auto& step) { return Do(step); });
  Execute(plan_->after_op[op]);
}

void PlanRun::OnStage(int stage) {
  if (diverged_) return;
  if (stage >= static_cast<int>(plan_->needs.size()) ||
      tape_->ops.size() != plan_->hashes.size()) {
    diverged_ = true;
    return;
  }
  const std::vector<int>& asked = tape_->stages[stage].needs;
  const std::vector<int>& planned = plan_->needs[stage];
  if (planned.empty() || asked[0] != planned[0]) {
    diverged_ = true;
    return;
  }
  waiting_.clear();  // bytes that the script still holds cost nothing to keep
  Arrive(plan_->hashes.size() + stage);
  Execute(plan_->before_stage[stage]);
}

// The next instant begins.
void PlanRun::Arrive(int instant) {
  const Simulation& expected = plan_->simulation;
  residency_.Arrive(tape_.get(), instant,
                    expected.peak - expected.curve[instant]);
}

void PlanRun::Execute(const std::vector<TapePlan::Step>& steps) {
  const auto is_offload = [](const TapePlan::Step& step) {
    return step.what == Action::Do::kOffload;
  };
  auto step = steps.begin();
  while (step != steps.end()) {
    const auto next = std::find_if(step, steps.end(), is_offload);
    for (; step != next; ++step) DoOrWait(*step);
    const HostTier::Burst burst = residency_.BeginBurst();
    const auto end = std::find_if_not(step, steps.end(), is_offload);
    for (; step != end; ++step) DoOrWait(*step);
  }
}

void PlanRun::DoOrWait(const TapePlan::Step& step) {
  if (!Do(step)) waiting_.push_back(step);
}

// False if the step has to wait until the script releases the storage.
bool PlanRun::Do(const TapePlan::Step& step) {
  if (step.what == Action::Do::kRecompute) {
    RunAgain(step.index);
    return true;
  }
  const TapeStorage& storage = tape_->storages[step.index];
  switch (step.what) {
    case Action::Do::kFree:
      if (std::find(holds_.begin(), holds_.end(), step.index) != holds_.end()) {
        Release(step.index);
      }
      return !storage.data || storage.hooks + storage.dependents == 0 ||
             residency_.Drop(tape_.get(), step.index);
    case Action::Do::kOffload:
      residency_.Spill(tape_, step.index, step.until);
      tape_->storages[step.index].returns = true;
      return storage.hooks == 0 || storage.spill || !residency_.CanSpill();
    case Action::Do::kRestore:
      residency_.Prefetch(tape_.get(), step.index);
      return true;
    default:
      return true;
  }
}

void PlanRun::RunAgain(int op) {
  const std::vector<int>& outputs = plan_->outputs[op];
  for (int output : outputs) {
    const TapeStorage& storage = tape_->storages[output];
    // If the values made from it could not be dropped it has no user, and it
    // may have no recipe.
    if (IsAvailable(storage) || !storage.owed) continue;
    if (storage.hooks == 0) Hold(output);
    residency_.Rebuild(tape_.get(), output, [&](int sibling) {
      return std::find(outputs.begin(), outputs.end(), sibling) !=
             outputs.end();
    });
  }
}

void PlanRun::Hold(int storage) {
  ++tape_->storages[storage].dependents;
  holds_.push_back(storage);
  Settle(tape_.get(), storage);
}

void PlanRun::Release(int storage) {
  std::erase(holds_, storage);
  --tape_->storages[storage].dependents;
  Settle(tape_.get(), storage);
}

}  // namespace ebbtide
