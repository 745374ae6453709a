// Between two pairs: what the last one taught, and what to do in the next.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hooks/run_log.h"
#include "hooks/runtime.h"
#include "planner/contest.h"

namespace ebbtide {
namespace {

// Evaluations of the search that tests wait for.
constexpr int64_t kTestEvaluations = 20'000;

}  // namespace

void Runtime::Learn() {
  const int64_t evictions =
      residency_.counts().drops + residency_.counts().spills;
  const bool evicted = evictions != std::exchange(evictions_, evictions);
  quiet_pairs_ = evicted || grew_ ? 0 : quiet_pairs_ + 1;
  if (evicted && state_ == State::kResting) ++pressed_rests_;
  const uint64_t last = signature_;
  const bool is_partial = std::exchange(is_partial_, false);
  const bool was_pressed = WasPressed();
  signature_ = complete_ && !is_partial ? tape_->hash : 0;
  streak_ = signature_ == last ? streak_ + 1 : 1;
  if (signature_ == 0) return;
  if (SignatureBook* before = books_.Find(last)) {
    before->successor = signature_;
  }
  SignatureBook& book = books_.Use(signature_);
  ++pairs_;
  if (book.pairs++ > 0) {
    book.longest_gap = std::max(book.longest_gap, pairs_ - book.last_pair);
  }
  book.last_pair = pairs_;
  book.was_short = evicted;
  const bool is_recorded = steady_run_ == nullptr;
  note_.signature = signature_;
  note_.is_recorded = is_recorded;
  if (is_recorded) KeepTimes(&book);
  if (note_.marks == nullptr) book.step_times.Add(watch_.step_nanoseconds());
  // One that is cut short shows too little to plan the whole ones by.
  const size_t stages = tape_->stages.size();
  if (stages > book.stages) {
    if (book.stages > 0) book.DiscardPlans();
    book.stages = stages;
  }
  if (!settings_.budget) {
    if (!is_recorded) return;
    if (streak_ >= book.steady_after) book.keeping = MakeKeepingPlan(*tape_);
    // Times are the least so far: later profiles are better ones. Making one
    // takes half of what a step of small ops does, so there are few; one is the
    // last before the recorder rests.
    constexpr int kApart = 4;
    const int before_rest = book.steady_after - 1;
    const bool is_due = streak_ > 1 && ++book.repeats == book.profile_due;
    // Steps may never repeat: the largest so far has a profile, too.
    const Bytes peak = report_.steps.last().peak;
    const bool is_largest =
        pairs_ > 1 && Count(peak) / 65 * 64 > Count(profiled_peak_);
    if (is_due || is_largest) {
      TakeProfile(book);
      profiled_peak_ = std::max(profiled_peak_, peak);
    }
    if (is_due) {
      const int due = book.profile_due * kApart;
      book.profile_due =
          book.repeats < before_rest ? std::min(due, before_rest) : due;
    }
    return;
  }
  RefreshVerified();
  NoteStepTime(&book, evicted);
  if (note_.plan != nullptr) {
    if (note_.is_settled && note_.layout_waste) {
      book.layout_waste = note_.layout_waste;
    }
    if (was_pressed || note_.found_no_room) {
      TightenPlans(&book);
    } else {
      RefinePlans(&book);
    }
  }
  // A later step that finds no memory says what this one took at least.
  if (least_peak_.empty() && complete_ && !tape_->stages.empty()) {
    NoteLeastPeak(BuildProfile(*tape_, watch_, nullptr).profile);
  }
  if (overran_) TellFloor(&book);
  if (is_recorded) PriceCandidates(&book);
  const bool is_first = (evicted || settings_.test_plans) && book.pairs > 1 &&
                        book.plans == SignatureBook::Plans::kNone;
  if ((is_first || book.is_due) && is_recorded && stages == book.stages) {
    AskForPlan(&book);
  }
}

void Runtime::Decide(Bytes peak, Bytes bounded) {
  const bool was_resting = state_ == State::kResting;
  proofs_.Settle();
  verifier_.DropRehearsal();
  if (plans_may_spill_ && !residency_.CanSpill()) {
    plans_may_spill_ = false;
    planning_.Clear();
    for (auto& [signature, book] : books_.entries()) book.DiscardPlans();
  }
  if (settings_.test_wait) planning_.Wait();
  FetchPlans();
  if (tape_ != nullptr) Learn();
  if (!settings_.budget) {
    state_ = RestRecorder() ? State::kSteady : State::kWatch;
    return;
  }
  if (followed_plan_ != nullptr && Followed() == nullptr) {
    Device::Get().EndPlan(device_);
  }
  followed_ = 0;
  const auto last = std::exchange(followed_plan_, nullptr);
  residency_.VerifyRebuilds(settings_.verify_every > 0 &&
                            report_.steps.count() % settings_.verify_every ==
                                0);
  state_ = State::kWatch;
  // A steady pair shows too little of what is saved.
  const bool is_known = was_resting || steady_run_ == nullptr;
  if (is_known && MayRest(bounded) && residency_.CloseEyes()) {
    Rest(peak, was_resting);
  } else if (ChooseSteady(last)) {
    state_ = State::kSteady;
  } else {
    recognition_ = Recognition(KnownTapes());
  }
}

// A plan whose copies would wait for host memory to be pinned comes when it is.
bool Runtime::IsPrepared(const Planning::Made& made) const {
  if (!made.plan.ok() || made.priced != nullptr || settings_.test_wait) {
    return true;
  }
  const Bytes offloaded = (*made.plan)->offloaded;
  return offloaded == Bytes{} || !residency_.CanSpill() ||
         residency_.tier()->Prepare(offloaded);
}

void Runtime::FetchPlans() {
  for (Planning::Made& made : planning_.TakeMade()) {
    made_.push_back(std::move(made));
  }
  const auto fetched = std::stable_partition(
      made_.begin(), made_.end(),
      [this](const auto& made) { return !IsPrepared(made); });
  for (auto made = fetched; made != made_.end(); ++made) FetchPlan(&*made);
  made_.erase(fetched, made_.end());
}

void Runtime::FetchPlan(Planning::Made* made) {
  SignatureBook* book = books_.Find(made->signature);
  if (book == nullptr) return;
  if (made->priced != nullptr) {
    Reprice(book, *made);
  } else if (book->request != made->request) {
    return;  // out of date
  } else if (made->plan.ok()) {
    book->plans = SignatureBook::Plans::kReady;
    if (book->Take(*std::move(made->plan))) ++report_.plans_made;
  } else if (!book->candidates.empty()) {
    return;  // those that there are stand
  } else if (absl::IsCancelled(made->plan.status())) {
    book->DiscardPlans();
  } else {
    book->RefusePlans(std::string(made->plan.status().message()));
  }
}

void Runtime::Reprice(SignatureBook* book, const Planning::Made& made) {
  if (!made.plan.ok()) return;
  for (Candidate& c : book->candidates) {
    if (c.plan != made.priced) continue;
    c.plan = *made.plan;
    ++report_.priced;
    if (followed_plan_ == made.priced) followed_plan_ = c.plan;
  }
}

// Those with a plan, the one that followed the last pair's the last time first,
// the others as they were last seen.
std::vector<KnownTape> Runtime::KnownTapes() const {
  const SignatureBook* last = books_.Find(signature_);
  const uint64_t expected = last == nullptr ? 0 : last->successor;
  std::vector<KnownTape> known;
  for (const auto& [signature, book] : books_.entries()) {
    if (book.candidates.empty()) continue;
    const auto& plan = book.candidates.front().plan;
    KnownTape tape = {.signature = signature, .hashes = {plan, &plan->hashes}};
    known.insert(signature == expected ? known.begin() : known.end(),
                 std::move(tape));
  }
  return known;
}

std::vector<Experience> Runtime::ExperiencesOf(bool moves) const {
  std::vector<Experience> experiences;
  for (const auto& [signature, book] : books_.entries()) {
    for (const Candidate& c : book.candidates) {
      if (c.moves != moves || c.times.steps() < kTrial) continue;
      experiences.push_back({PredictedSeconds(book, *c.plan), c.times.Least()});
    }
  }
  return experiences;
}

Candidate* Runtime::ChooseCandidate(SignatureBook* book) {
  // Elsewhere counts as long as one of several is not known itself.
  const auto& candidates = book->candidates;
  const bool is_open =
      candidates.size() > 1 &&
      std::any_of(candidates.begin(), candidates.end(),
                  [](const auto& c) { return c.times.steps() < kTrial; });
  std::vector<Contestant> contestants;
  for (const Candidate& c : candidates) {
    const Time predicted = PredictedSeconds(*book, *c.plan);
    contestants.push_back(
        {.predicted = predicted,
         .steps = c.times.steps(),
         .least = c.times.Least(),
         .expected =
             is_open ? ExpectedTime(predicted, ExperiencesOf(c.moves)) : 0});
  }
  const auto chosen =
      settings_.test_plans  // each in its turn, however slow
          ? std::optional<int>(report_.steps.count() % contestants.size())
          : ChoosePlan(contestants, book->demand.Median());
  if (chosen) return &book->candidates[*chosen];
  const char* why = "the plan was slower than evicting on demand";
  if (!std::exchange(refusal_told_, true)) {
    Say(absl::StrCat(why, ", and is dropped"));
  }
  book->RefusePlans(why);
  return nullptr;
}

// Times of the first pairs are poor: what plans are expected to take is found
// anew from the better ones.
void Runtime::PriceCandidates(SignatureBook* book) {
  const int pairs = book->step_times.steps();
  if (book->candidates.empty() || pairs < 2 * book->priced_at) return;
  book->priced_at = pairs;
  std::vector<std::shared_ptr<const TapePlan>> plans;
  for (const Candidate& c : book->candidates) plans.push_back(c.plan);
  planning_.Price(*tape_, book->request, TakeProfile(*book), std::move(plans),
                  budget());
}

void Runtime::SettleProofs() {
  if (proofs_.IsSettled()) return;
  proofs_.Settle();
  if (tape_ != nullptr) RefreshVerified();
}

// Marks the ops of the last pair with proofs that came after they were
// recorded.
void Runtime::RefreshVerified() {
  if (verifier_.results() == results_before_) return;
  for (TapeOp& op : tape_->ops) {
    if (!op.foreign) verifier_.Mark(&op);
  }
}

MeasuredProfile Runtime::TakeProfile(const SignatureBook& book) {
  const HostTier* tier = residency_.CanSpill() ? residency_.tier() : nullptr;
  SpreadTimes(book);
  MeasuredProfile measured = BuildProfile(*tape_, watch_, tier);
  Profile& profile = measured.profile;
  profile.origin = OriginOf(book);
  profile.tail_time = std::max(0.0, RestTime(book, BaseTime(profile)));
  RunLog::Global().AddText(TextKind::kProfile, ProfileToJson(profile));
  NoteLeastPeak(profile);
  last_profile_ = std::make_shared<Profile>(profile);
  return measured;
}

Bytes Runtime::MarginOf(const SignatureBook& book) const {
  return MarginFor({.budget = budget(),
                    .beside = Device::Get().WasteBeside(device_),
                    .of_step = waste_,
                    .of_layout = book.layout_waste,
                    .tightened = book.tightened});
}

void Runtime::AskForPlan(SignatureBook* book) {
  book->margin = MarginOf(*book);
  // The search is near its best in 1 ms per op. Planning takes a core of the
  // job: no more of it than pays soon.
  const absl::Duration size = absl::Milliseconds(tape_->ops.size());
  const absl::Duration step = absl::Nanoseconds(watch_.step_nanoseconds());
  PlanOptions options = {
      .budget = budget(),
      .time_limit = book->is_due
                        ? std::clamp(std::max(3 * step, size),
                                     absl::Seconds(0.5), absl::Seconds(5))
                        : std::clamp(std::max(step, size / 2),
                                     absl::Seconds(0.1), absl::Seconds(1)),
      .allow_offload = residency_.CanSpill(),
      .allow_recompute = settings_.recompute,
      .bounds = false};
  if (settings_.test_wait) {
    options.time_limit = absl::Minutes(1);
    options.evaluations = kTestEvaluations;
  }
  if (settings_.test_plans) {
    options.solver = "random";
    // Another plan for every signature. Hashes are those of one process only.
    options.seed = (*settings_.test_plans << 16) + test_plans_made_++;
  }
  // The candidates are followed until others are made.
  if (book->candidates.empty()) book->plans = SignatureBook::Plans::kAsked;
  book->request =
      planning_.Ask(*tape_, TakeProfile(*book), options, book->margin,
                    book->is_due || settings_.test_plans);
  book->is_due = false;
}

}  // namespace ebbtide
