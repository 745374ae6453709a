// Pairs without the recorder: steady ones, and those of a job at rest.
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "hooks/runtime.h"

namespace ebbtide {
namespace {

// Quiet pairs that it takes to believe that all are.
constexpr int kQuietPairs = 2;
// Quiet pairs for a device with cached blocks: the cache still changes when the
// live bytes do not.
constexpr int kQuietPairsOfCache = 8;
// Quiet pairs that it takes, for each other signature known, to believe that
// none of them comes.
constexpr int kPairsPerSignature = 2;

// In a row without the recorder; then one is recorded, to see what saved
// tensors do not show.
constexpr int kSteadyPairs = 63;

// Part of the budget that stays free where a job rests on a device that refuses
// memory.
constexpr int kHeadroomPart = 32;

// A job whose steps take no more than this part of the budget needs no hooks
// while it rests: a step would have to grow that many times to be short of
// memory.
constexpr int kIdlePart = 4;

// Without the recorder it would be unknown which streams use which storage.
bool UsesSeveralStreams(const Tape& tape) {
  return std::any_of(tape.storages.begin(), tape.storages.end(),
                     [](const auto& s) { return s.streams.size() > 1; });
}

}  // namespace

bool Runtime::IsNextRecorded() {
  if (state_ == State::kResting) return was_relieved_;
  if (state_ != State::kSteady || !as_planned_ || rests_once_more_) return true;
  const Candidate* candidate = Followed();
  return steady_pairs_ >= kSteadyPairs ||
         (candidate != nullptr && candidate->unsteady);
}

// True if a pair may go without the recorder. This is decided before it begins,
// and needs that the last ones were all alike.
bool Runtime::MayRestRecorder(const SignatureBook* book) const {
  return book != nullptr && streak_ >= book->steady_after &&
         steady_pairs_ < kSteadyPairs && !UsesSeveralStreams(*tape_);
}

// Live bytes are the same in all such pairs, and so are times.
bool Runtime::RestRecorder() {
  const SignatureBook* book = books_.Find(signature_);
  if (!MayRestRecorder(book) || book->keeping == nullptr) {
    steady_pairs_ = 0;
    return false;
  }
  ++steady_pairs_;
  followed_ = signature_;
  steady_plan_ = book->keeping;
  return true;
}

bool Runtime::ChooseSteady(const std::shared_ptr<const TapePlan>& last) {
  rests_once_more_ = false;
  SignatureBook* book = books_.Find(signature_);
  if (!MayRestRecorder(book) ||
      // Nothing more of graphs that are alive could be dropped.
      residency_.CountSavedTensors() > 0) {
    steady_pairs_ = 0;
    return false;
  }
  const auto is_steady = [this](const auto& plan) {
    return plan != nullptr && plan->steady != nullptr &&
           plan->plan.peak <= budget();
  };
  std::shared_ptr<const TapePlan> plan;
  if (book->plans == SignatureBook::Plans::kReady) {
    ++steady_pairs_;
    const Candidate* candidate = ChooseCandidate(book);
    // While it shows whether it has to be tightened or is to be refined: the
    // next one is made of a recorded pair.
    if (candidate != nullptr && !candidate->unsteady &&
        book->short_steps == 0 && !book->is_due) {
      plan = candidate->plan;
    }
  }
  // The recorder is off, and a recording would lack the ops before the first
  // save: such a pair gives no information, and breaks the streak.
  if (!is_steady(plan) && !IsRecorderEnabled() && plans_may_spill_) {
    plan = last;
    rests_once_more_ = true;
  }
  if (!is_steady(plan) || !residency_.CloseEyes()) {
    steady_pairs_ = 0;
    return false;
  }
  followed_ = signature_;
  followed_plan_ = plan;
  steady_plan_ = followed_plan_->steady;
  LogPlan();
  foreseen_ = PredictedSeconds(*book, *followed_plan_);
  return true;
}

// Each rest that a step has ended in want of memory doubles the quiet pairs
// before the next: what a resting pair needs is not recorded, so a kind of step
// that comes now and then would never get a plan.
int Runtime::QuietPairsToRest() const {
  constexpr int kMostDoublings = 10;
  const int others = std::max<int>(books_.size(), 1) - 1;
  const int least = Device::Get().is_async() ? kQuietPairsOfCache : kQuietPairs;
  return (least << std::min(pressed_rests_, kMostDoublings)) +
         kPairsPerSignature * others;
}

// Nothing saved at rest has a recipe, and in kIdle it cannot be evicted at all:
// a job does not rest before steps of other shapes, which may need more, have
// stopped coming, nor, on a device that refuses memory, where a step that grows
// a little would not fit.
bool Runtime::MayRest(Bytes peak) const {
  const Bytes headroom{
      Device::Get().is_async() ? Count(budget()) / kHeadroomPart : 0};
  if (!settings_.budget || settings_.test_plans || weights_.is_on() ||
      peak + headroom > budget()) {
    return false;
  }
  if (quiet_pairs_ < QuietPairsToRest()) return false;
  return std::none_of(books_.entries().begin(), books_.entries().end(),
                      [this](const auto& entry) {
                        const SignatureBook& book = entry.second;
                        return book.was_short && book.MayComeAgain(pairs_);
                      });
}

void Runtime::Rest(Bytes peak, bool was_resting) {
  if (!was_resting) {
    if (last_profile_ == nullptr) KeepProfile();
    const bool is_hooked = Count(peak) > Count(budget()) / kIdlePart &&
                           residency_.CanSpill() && !UsesSeveralStreams(*tape_);
    steady_plan_ = is_hooked ? MakeKeepingPlan(*tape_) : nullptr;
    // Memory of dead tapes lies in malloc's lists, which every later request of
    // the job would search.
    malloc_trim(0);
  }
  if (steady_plan_ != nullptr) {
    state_ = State::kResting;
    return;
  }
  tape_.reset();
  complete_ = false;
  // Tensors saved until Wake belong to PyTorch and cannot be evicted: a step
  // that grows has to wake the runtime soon (docs/decisions/steps.md).
  const int64_t slack = std::max<int64_t>(Count(peak) / 16, 1 << 20);
  const int64_t room = Count(budget()) - Count(peak);
  idle_until_ = Count(peak) + std::min(slack, room / 2);
  state_ = State::kIdle;
  // Steps are not seen any more.
  ShowProgress(step_began_, /*at_once=*/true);
  signature_ = 0;
  streak_ = 0;
  ++report_.rests;
}

void Runtime::Wake() {
  state_ = State::kWatch;
  ++pressed_rests_;
  is_partial_ = true;
  quiet_pairs_ = 0;
  EnableRecorder(true);
}

}  // namespace ebbtide
