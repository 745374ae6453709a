// Times and peaks of steps.
//
// The host does not see when queued work runs. There the device's clock is
// used: its marks are read when the next step is over, so that the host never
// waits for work just queued.
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hooks/device.h"
#include "hooks/device_spans.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"

namespace ebbtide {
namespace {

// Ops are measured in so many steps of a kind; the first is a poor one.
constexpr int kMarkedSteps = 4;

// How often PyTorch's allocator gave segments back to have room for others,
// which waits for all that is queued.
int64_t GiveBacks(int device) {
  if (!Device::Get().is_async()) return 0;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(
      c10::GetAllocator(Device::Get().type()));
  if (allocator == nullptr || !allocator->initialized()) return 0;
  return allocator->getDeviceStats(static_cast<c10::DeviceIndex>(device))
      .num_alloc_retries;
}

// Lower bound on the device's idle time and unattributed work in a step of that
// many nanoseconds, gaps between ops that belong to no work included.
// (ebbtide's own work may overlap with the rest.) 0 if unknown.
double RestOf(const std::optional<StepWork>& work, double step) {
  if (!work) return 0;
  const auto known = static_cast<double>(work->attributed + work->own);
  return std::max(static_cast<double>(work->unattributed), step - known);
}

}  // namespace

Bytes Runtime::LeastGain() const {
  constexpr int kPart = 512;
  return Bytes{Count(budget()) / kPart};
}

bool Runtime::WasPressed() {
  const int64_t before = std::exchange(give_backs_, GiveBacks(device_));
  return was_relieved_.exchange(false) || give_backs_ > before;
}

// A device runs short before live bytes come to the budget, because of parts of
// pages and of segments. A plan that keeps its time all the same is good
// enough, where its addresses find room.
void Runtime::TightenPlans(SignatureBook* book) {
  constexpr int kMost = 5;
  constexpr double kNear = 1.015;
  const Candidate* candidate = Followed();
  if (!Device::Get().is_async() || settings_.test_plans ||
      candidate == nullptr || candidate->is_too_high || !note_.is_settled ||
      book->tightened >= kMost) {
    return;
  }
  if (!note_.found_no_room &&
      (candidate->times.Least() <
           kNear * PredictedSeconds(*book, *candidate->plan) ||
       ++book->short_steps < kTrial)) {
    return;
  }
  book->short_steps = 0;
  const Bytes peak = candidate->plan->plan.peak;
  const Bytes least = LeastGain();
  // More may lie beside planned addresses, once they serve, than was known.
  if (MarginOf(*book) > book->margin + least) return book->ReplacePlans();
  // A plan for less has taken no less: it is the least there is.
  if (book->tightened > 0 && peak > book->tightened_from - least) {
    book->tightened = kMost;
    return;
  }
  book->tightened_from = peak;
  ++book->tightened;
  book->ReplacePlans();
}

// The first plan is made in little time, of two steps that were short of
// memory.
void Runtime::RefinePlans(SignatureBook* book) {
  Candidate* candidate = Followed();
  if (settings_.test_plans || book->is_refined || candidate == nullptr ||
      !note_.is_settled || candidate->times.steps() < kTrial) {
    return;
  }
  candidate->is_too_high = book->layout_waste.has_value() &&
                           MarginOf(*book) > book->margin + LeastGain();
  book->is_refined = true;
  book->is_due = true;
  book->priced_at = 0;  // the plans that replace it are compared by the same
                        // times
}

// Traces the work that the device has completed.
void Runtime::LogQueued() {
  residency_.LogTier();
  DeviceSpans::Global().Poll();
}

bool Runtime::IsStepOver() const {
  return step_began_ > 0 && complete_ && !in_pair_;
}

void Runtime::BookStep() {
  const double now = Seconds();
  TakeQueuedTime();
  if (step_began_ == 0) return;
  plan_run_.reset();
  watch_.EndStep();
  step_seconds_ = now - step_began_;
  const Bytes peak = Device::Get().StepPeak(device_);
  overran_ = peak > budget();
  // The cache goes on growing for some steps after what is alive does not.
  grew_ = Device::Get().is_async() && peak > highest_peak_;
  highest_peak_ = std::max(highest_peak_, peak);
  const Bytes alive = ledger().Peak();
  waste_ = peak - alive;
  if (overran_) ++report_.over_budget_steps;
  LogQueued();
  RunLog::Global().EndStep(report_.steps.count(), peak);
  report_.steps.Add({.seconds = step_seconds_, .peak = peak});
  const std::optional<Bytes> planned = Device::Get().ReservedAsPlanned(device_);
  note_ = {.number = report_.steps.count() - 1,
           .is_settled = IsPlaced(),
           .marks = watch_.step_marks(),
           .found_no_room = planned > budget()};
  if (planned) note_.layout_waste = std::max(*planned - alive, Bytes{});
  NoteWork();
  ++report_.steps_by_state[NameOf(state_)];
  ShowProgress(now, /*at_once=*/false);
  RefreshLastWords(now);
}

bool Runtime::IsPlaced() const {
  constexpr int kMost = 16;
  return unplaced_steps_ == 0 || unplaced_steps_ > kMost;
}

void Runtime::BeginDeviceStep() {
  const bool follows_plan =
      followed_plan_ != nullptr &&
      (state_ == State::kActive || state_ == State::kSteady);
  const bool may_be_placed = Device::Get().BeginStep(
      device_, follows_plan ? followed_plan_->number : 0);
  unplaced_steps_ =
      may_be_placed ? unplaced_steps_ + (follows_plan ? 1 : 0) : 0;
  // A step that was not as planned shows that at its end.
  note_.is_settled = note_.is_settled && IsPlaced();
}

void Runtime::CloseStep() {
  BookStep();
  BeginDeviceStep();
  RunLog::Global().BeginStep(report_.steps.count());
  step_began_ = Seconds();
  Device::Get().ResetPeak(device_);
}

// A thread may be inside the pair, and goes on with it: that step is not over,
// but what it has taken counts.
void Runtime::CloseLastStep() {
  if (IsStepOver()) {
    BookStep();
    BeginDeviceStep();
    step_began_ = 0;
  } else if (step_began_ > 0 && Device::Get().StepPeak(device_) > budget()) {
    ++report_.over_budget_steps;
  }
  TakeQueuedTime();
}

RunReport Runtime::ReportSoFar() const {
  RunReport report = report_;
  if (!IsStepOver()) return report;
  const Bytes peak = Device::Get().StepPeak(device_);
  if (peak > budget()) ++report.over_budget_steps;
  report.steps.Add({.seconds = Seconds() - step_began_, .peak = peak});
  ++report.steps_by_state[NameOf(state_)];
  return report;
}

void Runtime::StartProgress() {
  if (!settings_.progress || settings_.log == Settings::Log::kOff) return;
  progress_.emplace(&StandardError(), settings_.log == Settings::Log::kDebug);
}

void Runtime::ShowProgress(double now, bool at_once) {
  if (!progress_ || report_.steps.count() == 0) return;
  const Step& last = report_.steps.known().back();
  const ProgressFacts facts = {
      .step = report_.steps.count(),
      .peak = last.peak,
      .budget = budget() == kNoBudget ? Bytes{-1} : budget(),
      .seconds = last.seconds,
      .state = NameOf(state_)};
  if (at_once) {
    progress_->OnChange(now, facts);
  } else {
    progress_->OnStep(now, facts);
  }
}

void Runtime::TakeQueuedTime() {
  const auto marks = std::exchange(note_.marks, nullptr);
  if (marks == nullptr || marks->begin == nullptr || marks->end == nullptr) {
    return;
  }
  const auto all =
      Device::Get().NanosecondsBetween(*marks->begin, *marks->end, true);
  if (!all) return;
  if (Step* step = report_.steps.Find(note_.number)) step->seconds = *all / 1e9;
  SignatureBook* book = books_.Find(note_.signature);
  if (book == nullptr) return;
  if (note_.is_recorded && marks->tail != nullptr) {
    const auto tail =
        Device::Get().NanosecondsBetween(*marks->tail, *marks->end, true);
    if (tail) book->tail_times.Add(std::max(*tail, RestOf(note_.work, *all)));
    book->step_times.Add(*all);
  }
  LearnStepTime(book, *all / 1e9);
}

void Runtime::NoteStepTime(SignatureBook* book, bool evicted) {
  note_.was_short = followed_plan_ == nullptr && evicted;
  const bool is_followed = state_ == State::kActive || state_ == State::kSteady;
  if (is_followed && as_planned_ && signature_ == followed_) {
    note_.plan = followed_plan_;
    // Ops that have waited for memory have taken too long, and later ones will
    // not wait.
    if (Device::Get().is_async() && note_.is_settled &&
        !std::exchange(book->is_settled, true)) {
      book->ForgetTimes();
    }
    if (Candidate* candidate = Followed()) ReportFollowed(*book, candidate);
  }
  if (note_.marks == nullptr) LearnStepTime(book, step_seconds_);
}

void Runtime::LearnStepTime(SignatureBook* book, double seconds) const {
  if (note_.was_short) book->demand.Add(seconds);
  if (note_.plan == nullptr || !note_.is_settled) return;
  for (Candidate& c : book->candidates) {
    if (c.plan == note_.plan) c.times.Add(seconds);
  }
}

// The share of ebbtide's own work in a step is known only if the host does not
// run ahead.
Time Runtime::RestTime(const SignatureBook& book, Time base) {
  return Device::Get().is_async() ? book.tail_times.Least()
                                  : book.step_times.Median() - base;
}

double Runtime::PredictedSeconds(const SignatureBook& book,
                                 const TapePlan& plan) {
  return (plan.plan.time + RestTime(book, plan.base)) / 1e9;
}

void Runtime::ReportFollowed(const SignatureBook& book, Candidate* candidate) {
  if (candidate->reported < 0) {
    candidate->reported = static_cast<int>(report_.plans.size());
    report_.plans.push_back({.offloads = candidate->moves});
  }
  report_.steps.last().plan = candidate->reported;
  report_.steps.last().foreseen = foreseen_;
  auto& reported = report_.plans[candidate->reported];
  reported.predicted_time = PredictedSeconds(book, *candidate->plan);
  reported.predicted_peak = candidate->plan->plan.peak;
}

// Steps of a signature are mostly all alike, so the first few are enough.
bool Runtime::WantsWork() const {
  constexpr int kWindows = 8;
  if (IsUnrecorded()) return false;
  const SignatureBook* last = books_.Find(signature_);
  const SignatureBook* next =
      last == nullptr ? nullptr : books_.Find(last->successor);
  const SignatureBook* expected = next != nullptr ? next : last;
  return expected == nullptr || expected->windows < kWindows;
}

// Two marks for each op cost the host about as much as the op. So where there
// is a budget, pairs are measured until all kinds that may come have been often
// enough: which kind a pair is of shows too late to begin then.
bool Runtime::WantsMarks() const {
  if (!settings_.budget || books_.size() == 0) return true;
  return std::any_of(books_.entries().begin(), books_.entries().end(),
                     [this](const auto& entry) {
                       const SignatureBook& book = entry.second;
                       return book.marked < kMarkedSteps &&
                              book.MayComeAgain(pairs_);
                     });
}

void Runtime::NoteWork() {
  if (!watch_.work()) return;
  StepWork work = *watch_.work();
  work.step = note_.number;
  note_.work = work;
  report_.cupti.Add(work);
}

void Runtime::TellCupti() {
  const std::string& why = watch_.kernels().refused();
  if (why.empty() || std::exchange(refusal_of_cupti_told_, true)) return;
  Say(absl::StrCat("times of ops are those of CUDA events; ", why));
}

void Runtime::KeepTimes(SignatureBook* book) {
  const bool by_work = watch_.work().has_value();
  if (by_work) ++book->windows;
  // Marks in a stream say more than the work takes.
  const bool is_better = by_work && book->windows == 1;
  const bool is_worse = !by_work && book->windows > 0;
  const bool known = !is_better && book->op_times.size() == tape_->ops.size() &&
                     book->stage_times.size() == tape_->stages.size();
  if (!known) {
    book->marked = 0;
    book->op_times.assign(tape_->ops.size(), {});
    book->stage_times.assign(tape_->stages.size(), {});
  }
  if (watch_.has_marks() && ++book->marked == kMarkedSteps) {
    book->priced_at = 0;
  }
  const auto keep = [&](TapeTime* time, TimeSamples* times) {
    const bool counts = by_work || time->is_measured;
    if (counts && (!known || !is_worse)) times->Add(time->nanoseconds);
    if (!times->IsEmpty()) time->nanoseconds = times->Least();
  };
  for (size_t i = 0; i < book->op_times.size(); ++i) {
    keep(&tape_->ops[i], &book->op_times[i]);
  }
  for (size_t i = 0; i < book->stage_times.size(); ++i) {
    keep(&tape_->stages[i], &book->stage_times[i]);
  }
}

}  // namespace ebbtide
