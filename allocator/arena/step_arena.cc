#include "allocator/arena/step_arena.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

// So often a plan is laid out anew while it is served; kForgiven steps as
// planned are a new begin.
constexpr int kMostLayouts = 4;
// One of so many requests that is not as planned is none too many.
constexpr int64_t kTolerance = 100;

std::string Describe(const ArenaCounts& before, const ArenaCounts& now) {
  return absl::StrCat("in a step ", now.unexpected - before.unexpected,
                      " requests were not expected, ",
                      now.occupied - before.occupied,
                      " found their addresses in use and ",
                      now.skipped - before.skipped, " did not come");
}

// True if a block lived longer than the step has it. Its life is that long from
// now on.
bool LivedLonger(const std::vector<int64_t>& lives,
                 std::vector<StepRequest>* step) {
  bool longer = false;
  for (size_t i = 0; i < lives.size(); ++i) {
    longer |= lives[i] > (*step)[i].life;
    (*step)[i].life = std::max((*step)[i].life, lives[i]);
  }
  return longer;
}

}  // namespace

const char* NameOf(StepArena::State state) {
  constexpr const char* kNames[] = {"recording", "serving", "off"};
  return kNames[static_cast<int>(state)];
}

void StepArena::BeginStep(int64_t plan) {
  const bool is_wanted = plan != 0;
  pages_.BeginStep();
  if (state_ == State::kServing) {
    Judge(plan);
  } else if (std::exchange(served_plan_, plan) != plan) {
    std::lock_guard lock(mutex_);
    in_a_row_ = 0;
    facts_.lacking = Bytes{};
    state_ = State::kRecording;
  }
  if (state_ == State::kRecording) Record(is_wanted);
}

void StepArena::EndPlan() {
  if (state_ != State::kServing) return;
  GiveUpPlan();
  if (state_ == State::kRecording) Record(/*is_wanted=*/true);
}

// The trace goes with the plan: later steps are served by demand.
void StepArena::GiveUpPlan() {
  pages_.EndPlan();
  std::lock_guard lock(mutex_);
  trace_.Clear();
  Retry(/*is_retreat=*/false);
}

void StepArena::Judge(int64_t plan) {
  const bool is_wanted = plan != 0;
  const ArenaCounts now = pages_.facts().counts;
  const ArenaCounts before = std::exchange(judged_, now);
  ++steps_served_;
  const auto requests = static_cast<int64_t>(step_.size());
  const int64_t wrong = now.mismatches() - before.mismatches();
  const bool is_bad = wrong * kTolerance > requests;
  if (is_bad && is_wanted && plan != served_plan_) return GiveUpPlan();
  if (IsDueAnew(wrong > 0 && is_wanted, is_bad)) {
    pages_.EndPlan();
    return TakeOver();
  }
  bad_steps_ = is_bad || !is_wanted ? bad_steps_ + 1 : 0;
  if (bad_steps_ >= kBadSteps) {
    pages_.EndPlan();
    std::lock_guard lock(mutex_);
    facts_.reason =
        is_bad ? Describe(before, now) : "steps follow no plan any more";
    Retry(/*is_retreat=*/is_wanted);
  } else if (bad_steps_ == 0 && ++good_steps_ % kForgiven == 0) {
    std::lock_guard lock(mutex_);
    in_a_row_ = 0;
    layouts_ = 0;
  }
}

// Steps are traced as long as they are not as planned.
bool StepArena::IsDueAnew(bool is_wrong, bool is_bad) {
  const auto lives = is_wrong ? pages_.PlanLives() : std::vector<int64_t>();
  std::lock_guard lock(mutex_);
  if (!is_wrong || layouts_ >= kMostLayouts) {
    if (is_traced_.exchange(false)) trace_.Clear();
    return false;
  }
  is_traced_ = true;
  trace_.BeginStep();
  std::vector<StepRequest> step = trace_.Repeated();
  // In a step that is bad requests have others' slots, and their lives.
  if (!step.empty() && (is_bad || !AskForTheSame(step_, step))) {
    step_ = std::move(step);
  } else if (is_bad || !LivedLonger(lives, &step_)) {
    return false;
  }
  ++layouts_;
  return true;
}

void StepArena::Record(bool is_wanted) {
  {
    std::lock_guard lock(mutex_);
    is_traced_ = is_wanted;
    if (!is_wanted) return trace_.Clear();
    trace_.BeginStep();
    step_ = trace_.Repeated();
    if (step_.empty()) return;
  }
  TakeOver();
}

// With the mutex held.
void StepArena::TurnOff(std::string reason) {
  facts_.reason = std::move(reason);
  trace_.Clear();
  is_traced_ = false;
  state_ = State::kOff;
}

// Bytes that a plan may have: all but those of live blocks that it has no
// addresses for when they are asked for again. Pages that such blocks share
// with holes count in part: a request whose slot finds no page may lie there
// (PageArena::AllocateByPlan).
Bytes StepArena::RoomForPlan() const {
  const PageArena::Facts facts = pages_.facts();
  std::lock_guard lock(mutex_);
  return facts.mapped + facts.room - facts.alive + trace_.Returning(step_);
}

void StepArena::TakeOver() {
  auto layout = LayOut(step_, pages_.page());
  const Bytes room = RoomForPlan();
  if (layout.ok() && layout->plan.height() > room) {
    std::lock_guard lock(mutex_);
    facts_.lacking = layout->plan.height() - room;
    return TurnOff(absl::StrCat(FormatSize(layout->plan.height()),
                                " of addresses find no room"));
  }
  if (!layout.ok() || !pages_.BeginPlan(layout->plan)) {
    std::lock_guard lock(mutex_);
    return TurnOff(layout.ok() ? "there are no addresses for the plan"
                               : std::string(layout.status().message()));
  }
  judged_ = pages_.facts().counts;
  bad_steps_ = 0;
  steps_served_ = 1;
  std::lock_guard lock(mutex_);
  facts_.height = layout->plan.height();
  facts_.bound = layout->bound;
  facts_.lacking = Bytes{};
  trace_.Clear();
  trace_.BeginStep();
  is_traced_ = true;
  state_ = State::kServing;
}

// With the mutex held.
void StepArena::Retry(bool is_retreat) {
  layouts_ = 0;
  if (is_retreat) {
    ++facts_.retreats;
    ++in_a_row_;
  }
  state_ = in_a_row_ < kMostRetreats ? State::kRecording : State::kOff;
  if (state_ == State::kOff) is_traced_ = false;
}

void* StepArena::Allocate(Bytes size, int stream, bool is_last,
                          PageArena::By by) {
  ArenaVerdict verdict;
  void* const block = is_last ? AllocateLast(size, stream, by)
                              : pages_.Allocate(size, stream, &verdict, by);
  if (block == nullptr) return nullptr;
  if (is_traced_) Trace(block, size, stream);
  if (verdict.what == ArenaVerdict::What::kUnexpected ||
      verdict.what == ArenaVerdict::What::kOccupied) {
    NoteMismatch(verdict.slot, size);
  }
  return block;
}

void* StepArena::AllocateLast(Bytes size, int stream, PageArena::By by) {
  void* const block = pages_.AllocateAnywhere(size, stream, by);
  if (block != nullptr || state_ != State::kServing) return block;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kServing) return nullptr;
    facts_.reason = "memory was missing beside the plan";
    Retry(/*is_retreat=*/true);
  }
  pages_.EndPlan();
  return pages_.AllocateAnywhere(size, stream, by);
}

void StepArena::NoteMismatch(int slot, Bytes size) {
  std::string op = OpName();
  std::lock_guard lock(mutex_);
  if (op.empty() && slot < static_cast<int>(step_.size())) op = step_[slot].op;
  if (op.empty()) op = "unknown";
  auto& all = facts_.mismatches_by_op;
  if (all.size() >= kMostNames && !all.contains(op)) op = kOtherOps;
  ++all[op].requests;
  all[op].bytes += Count(size);
}

void StepArena::Trace(const void* block, Bytes size, int stream) {
  std::string op = OpName();
  std::lock_guard lock(mutex_);
  trace_.OnAllocate(block, size, stream, std::move(op));
}

bool StepArena::Free(void* block, absl::Span<const int> others,
                     absl::Span<const StreamMark> ends) {
  if (is_traced_) {
    std::lock_guard lock(mutex_);
    trace_.OnFree(block);
  }
  return pages_.Free(block, others, ends);
}

StepArena::Facts StepArena::facts() const {
  const PageArena::Facts pages = pages_.facts();
  std::lock_guard lock(mutex_);
  Facts facts = facts_;
  facts.state = state_;
  facts.pages = pages;
  return facts;
}

}  // namespace ebbtide
