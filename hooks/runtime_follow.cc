// In a pair: recognising which of the known ones it is, and following its plan
// for as long as it is that one.
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>

#include "hooks/run_log.h"
#include "hooks/runtime.h"

namespace ebbtide {

Candidate* Runtime::Followed() { return Find(followed_, followed_plan_); }

Candidate* Runtime::Find(uint64_t signature,
                         const std::shared_ptr<const TapePlan>& plan) {
  SignatureBook* book = books_.Find(signature);
  if (book == nullptr) return nullptr;
  const auto known =
      std::find_if(book->candidates.begin(), book->candidates.end(),
                   [&plan](const Candidate& c) { return c.plan == plan; });
  return known == book->candidates.end() ? nullptr : &*known;
}

void Runtime::FollowOp(int op) {
  if (plan_run_ != nullptr) {
    plan_run_->OnOpEnd(op);
    if (!plan_run_->diverged()) return;
    EndPlanRun();
  }
  if (in_backward_ || state_ != State::kWatch) return;
  const int ops = op + 1;
  while (const auto signature = recognition_.After(op, tape_->ops[op].hash)) {
    if (FollowPlanFor(*signature, ops)) return;
    recognition_.Exclude(*signature);
  }
}

void Runtime::FollowAsk(int storage) {
  const auto node = torch::autograd::get_current_node();
  if (steady_run_ != nullptr) {
    tape_->follows_plan = !steady_run_->diverged();
    RestoreWhatIsDue(node.get());
    return;
  }
  const int stages = tape_->stages.size();
  if (watch_.Ask(storage, node.get()) == stages) {
    FollowStage(stages);
    ObserveStage(stages, node.get());
  }
  tape_->follows_plan = plan_run_ != nullptr;
}

void Runtime::FreeWhatIsDue() {
  residency_.Arrive(tape_.get(), steady_run_->instant(), steady_run_->room());
}

void Runtime::SpillWhatIsDue(int position) {
  const HostTier::Burst burst = residency_.BeginBurst();
  while (steady_run_->IsSpillDue(position)) {
    const auto& [save, storage, until] = steady_run_->NextSpill();
    if (storage < static_cast<int>(tape_->storages.size())) {
      residency_.Spill(tape_, storage, until);
      tape_->storages[storage].returns = true;
    }
  }
  FreeWhatIsDue();
}

void Runtime::RestoreWhatIsDue(const void* node) {
  const auto restores = steady_run_->RestoresDue(node);
  FreeWhatIsDue();
  for (int due : restores) {
    if (due >= static_cast<int>(tape_->storages.size())) continue;
    if (tape_->storages[due].hooks > 0) residency_.Prefetch(tape_.get(), due);
  }
}

void Runtime::FollowStage(int stage) {
  const size_t ops = tape_->ops.size();
  // A tape that goes on where this one has ended is another, too.
  if (stage == 0 && (plan_run_ == nullptr || plan_run_->ExpectsMoreThan(ops))) {
    EndPlanRun();
    const auto signature = recognition_.Whole(ops, tape_->hash);
    if (signature && state_ == State::kWatch) FollowPlanFor(*signature, ops);
  }
  if (plan_run_ == nullptr) return;
  plan_run_->OnStage(stage);
  if (plan_run_->diverged()) EndPlanRun();
}

// Backward op `stage` begins, which `node` is: the recorder is off from the
// first one on for as long as the pass can write nothing that recipes read.
void Runtime::ObserveStage(int stage, torch::autograd::Node* node) {
  if (stage == 0) {
    is_unobserved_ = plan_run_ != nullptr && !writes_in_backward_ &&
                     !has_foreign_hooks_ && !at::GradMode::is_enabled() &&
                     !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
                     graph_.IsPlain(node);
    if (is_unobserved_) EnableRecorder(false);
  } else if (is_unobserved_ && !graph_.IsPlain(node)) {
    ObserveAgain();
  }
}

void Runtime::ObserveAgain() {
  if (std::exchange(is_unobserved_, false)) EnableRecorder(true);
}

void Runtime::LogPlan() {
  if (!RunLog::Global().IsOpen() || logged_plan_ == followed_plan_) return;
  logged_plan_ = followed_plan_;
  RunLog::Global().AddText(TextKind::kPlan, PlanToJson(followed_plan_->plan));
}

// The first `ops` ops were those of a pair with that signature. False where
// none of its plans is to be followed.
bool Runtime::FollowPlanFor(uint64_t signature, int ops) {
  SignatureBook* book = books_.Find(signature);
  if (book == nullptr || book->plans != SignatureBook::Plans::kReady) {
    return false;
  }
  const Candidate* candidate = ChooseCandidate(book);
  if (candidate == nullptr) return false;
  followed_ = signature;
  followed_plan_ = candidate->plan;
  LogPlan();
  report_.predicted_peak = followed_plan_->plan.peak;
  report_.predicted_time = foreseen_ = PredictedSeconds(*book, *followed_plan_);
  state_ = State::kActive;
  plan_run_ = std::make_unique<PlanRun>(followed_plan_, tape_, &residency_);
  expected_ = book;
  for (int op = 0; op < ops; ++op) book->EstimateTime(op, &tape_->ops[op]);
  plan_run_->CatchUp(ops);
  return true;
}

// The pair is over, or is not what was planned.
void Runtime::EndPlanRun() {
  if (plan_run_ == nullptr) return;
  const std::unique_ptr<PlanRun> run = std::move(plan_run_);
  expected_ = nullptr;
  as_planned_ = complete_ && !run->diverged();
  if (in_pair_ && state_ == State::kActive) state_ = State::kWatch;
}

void Runtime::EndSteadyPair() {
  if (!complete_) return;
  if (steady_run_->IsOver(saves_)) {
    tape_->hash = followed_;
    as_planned_ = true;
  } else if (SignatureBook* book = books_.Find(followed_)) {
    // The longer a streak has to be, the fewer pairs differ.
    constexpr int kMost = 1 << 10;
    book->steady_after = std::min(2 * book->steady_after, kMost);
  }
}

}  // namespace ebbtide
