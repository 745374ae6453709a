// Between two pairs: what the last one taught, and what to do in the next.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"

namespace ebbtide {

void Runtime::NoteStepTime(double seconds) {
  if (state_ == State::kWatch && evictions_ > 0) {
    ways_[tape_->hash].demand.Add(seconds);
  }
  if ((state_ == State::kActive || state_ == State::kSteady) &&
      tape_->hash == followed_) {
    Followed().times.Add(seconds);
  }
}

void Runtime::Decide() {
  if (tape_ == nullptr) return;
  repeated_ = complete_ && tape_->hash == signature_;
  if (steady_run_ == nullptr) KeepLeastTimes();
  signature_ = tape_->hash;
  if (!settings_.budget) {
    // Times are the least so far: later profiles are better ones.
    if (repeated_ && std::has_single_bit(++repeats_[signature_])) TakeProfile();
    return;
  }
  RefreshVerified();
  if (overran_) TellFloor();
  const int64_t evictions =
      residency_.counts().drops + residency_.counts().spills;
  quiet_pairs_ = evictions == evictions_ ? quiet_pairs_ + 1 : 0;
  evictions_ = evictions;
  state_ = State::kWatch;
  residency_.VerifyRebuilds(settings_.verify_every > 0 &&
                            report_.steps % settings_.verify_every == 0);
  if (plans_may_spill_ && !residency_.CanSpill()) {
    plans_may_spill_ = false;
    planning_.DiscardAll();
  }
  const auto planned = planning_.StateOf(signature_);
  if (planned == Planning::State::kReady) followed_ = signature_;
  // After an exception to the rule (a last, short batch) the rule returns.
  if (planning_.StateOf(followed_) == Planning::State::kReady) {
    ChooseCandidate();
  } else if (planned == Planning::State::kUnknown && repeated_ &&
             quiet_pairs_ == 0) {
    StartPlanning();
  }
}

void Runtime::ChooseCandidate() {
  Ways& ways = ways_[followed_];
  std::vector<Candidate> candidates;
  std::vector<Contestant> contestants;
  for (const auto& plan : planning_.PlansFor(followed_)) {
    const auto known =
        std::find_if(ways.plans.begin(), ways.plans.end(),
                     [&](const Candidate& c) { return c.plan == plan; });
    candidates.push_back(known == ways.plans.end() ? Candidate{.plan = plan}
                                                   : std::move(*known));
    const StepTimes& times = candidates.back().times;
    contestants.push_back({.predicted = plan->plan.time / 1e9,
                           .steps = times.steps(),
                           .least = times.Least()});
  }
  ways.plans = std::move(candidates);
  const auto chosen = ChoosePlan(contestants, ways.demand.Least());
  if (!chosen) {
    const char* why = "the plan was slower than evicting on demand";
    Say(absl::StrCat(why, ", and is dropped"));
    planning_.Refuse(followed_, why);
    return;
  }
  following_ = *chosen;
  state_ = Followed().proven ? State::kActive : State::kShadow;
  ChooseSteady();
}

void Runtime::ChooseSteady() {
  // Then one is recorded, to see what saved tensors do not show.
  constexpr int kSteadyPairs = 63;
  if (state_ == State::kActive && !Followed().unsteady &&
      steady_pairs_ < kSteadyPairs && Followed().plan->steady != nullptr &&
      residency_.CloseEyes()) {
    state_ = State::kSteady;
    ++steady_pairs_;
  } else {
    steady_pairs_ = 0;
  }
}

void Runtime::KeepLeastTimes() {
  const bool known = repeated_ && op_times_.size() == tape_->ops.size() &&
                     stage_times_.size() == tape_->stages.size();
  op_times_.resize(tape_->ops.size());
  stage_times_.resize(tape_->stages.size());
  const auto keep = [known](double* measured, double* least) {
    if (known) *measured = std::min(*measured, *least);
    *least = *measured;
  };
  for (size_t i = 0; i < op_times_.size(); ++i) {
    keep(&tape_->ops[i].nanoseconds, &op_times_[i]);
  }
  for (size_t i = 0; i < stage_times_.size(); ++i) {
    keep(&tape_->stages[i].nanoseconds, &stage_times_[i]);
  }
  double step = watch_.step_nanoseconds();
  keep(&step, &step_time_);
}

// What was found out since the ops of the last pair were recorded.
void Runtime::RefreshVerified() {
  if (verifier_.results() == results_before_) return;
  for (TapeOp& op : tape_->ops) {
    if (!op.foreign) verifier_.Mark(&op);
  }
}

MeasuredProfile Runtime::TakeProfile() {
  const HostTier* tier = residency_.CanSpill() ? residency_.tier() : nullptr;
  MeasuredProfile measured = BuildProfile(*tape_, watch_, tier);
  Profile& profile = measured.profile;
  profile.tail_time = std::max(0.0, step_time_ - BaseTime(profile));
  RunLog::Global().AddText(TextKind::kProfile, ProfileToJson(profile));
  return measured;
}

void Runtime::StartPlanning() {
  // Demand eviction makes up for what the prediction misses.
  const int64_t budget = Count(*settings_.budget);
  const int64_t margin =
      std::min(std::max<int64_t>(budget / 100, 1 << 20), budget / 2);
  // Planning takes a core of the job: no more of it than pays soon.
  const absl::Duration steps = absl::Nanoseconds(3 * watch_.step_nanoseconds());
  planning_.Start(
      *tape_, TakeProfile(),
      {.budget = Bytes{budget - margin},
       .time_limit = std::clamp(steps, absl::Seconds(0.5), absl::Seconds(5)),
       .allow_offload = residency_.CanSpill()});
}

void Runtime::FollowPlan() {
  const auto& plan = Followed().plan;
  report_.predicted_peak = plan->plan.peak;
  report_.predicted_time = plan->plan.time / 1e9;
  if (state_ == State::kSteady) {
    steady_run_ = std::make_unique<SteadyRun>(plan->steady);
    return;
  }
  plan_run_ = std::make_unique<PlanRun>(plan,
                                        state_ == State::kShadow
                                            ? PlanRun::Mode::kShadow
                                            : PlanRun::Mode::kActive,
                                        tape_, &residency_, &verifier_);
}

}  // namespace ebbtide
