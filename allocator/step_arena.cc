#include "allocator/step_arena.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

// Steps of thoughts that are not clean, in all, after which they are given up:
// in steps that take turns none is for long.
constexpr int kMostUnclean = 8;
// One of so many requests that is not as planned is none too many.
constexpr int64_t kTolerance = 100;
// Where a thought has its blocks: never looked at.
char* const kNowhere = reinterpret_cast<char*>(kArenaGrain);

// Requests that were not as planned, of what has been counted in between.
int64_t Mismatches(const ArenaCounts& before, const ArenaCounts& now) {
  const auto all = [](const ArenaCounts& c) {
    return c.unexpected + c.occupied + c.skipped;
  };
  return all(now) - all(before);
}

std::string Describe(const ArenaCounts& before, const ArenaCounts& now) {
  return absl::StrCat("in a step ", now.unexpected - before.unexpected,
                      " requests were not expected, ",
                      now.occupied - before.occupied,
                      " found their addresses in use and ",
                      now.skipped - before.skipped, " did not come");
}

// Whether a step that repeats is not what is known. Of the same requests lives
// are the longest that there were.
bool IsNews(const std::vector<StepRequest>& known,
            std::vector<StepRequest>* step) {
  if (!AskForTheSame(known, *step)) return true;
  bool is_news = false;
  for (size_t i = 0; i < step->size(); ++i) {
    is_news |= (*step)[i].life > known[i].life;
    (*step)[i].life = std::max((*step)[i].life, known[i].life);
  }
  return is_news;
}

}  // namespace

const char* NameOf(StepArena::State state) {
  switch (state) {
    case StepArena::State::kRecording:
      return "recording";
    case StepArena::State::kCounterfactual:
      return "counterfactual";
    case StepArena::State::kServing:
      return "serving";
    case StepArena::State::kLeaving:
      return "leaving";
    case StepArena::State::kOff:
      return "off";
  }
  return "";
}

StepArena::~StepArena() = default;

void StepArena::BeginStep(bool is_wanted) {
  GiveBackKept();
  if (state_ == State::kServing) Judge(is_wanted);
  if (state_ == State::kLeaving) Release();
  if (state_ == State::kCounterfactual) Think();
  // What it thinks is a step further than what it records.
  if (state_ == State::kRecording || state_ == State::kCounterfactual ||
      (state_ == State::kOff && !is_wanted)) {
    Record(is_wanted);
  }
}

void StepArena::Judge(bool is_wanted) {
  PlannedArena& arena = *arena_;
  arena.BeginPhase(0);
  const ArenaCounts now = arena.counts();
  const ArenaCounts before = std::exchange(judged_, now);
  const auto requests = static_cast<int64_t>(step_.size());
  const bool is_bad = Mismatches(before, now) * kTolerance > requests;
  bad_steps_ = is_bad || !is_wanted ? bad_steps_ + 1 : 0;
  if (bad_steps_ >= kBadSteps) {
    Leave(&arena,
          is_bad ? Describe(before, now) : "steps follow no plan any more",
          /*is_retreat=*/is_wanted);
  } else if (bad_steps_ == 0 && ++good_steps_ % kForgiven == 0) {
    std::lock_guard lock(mutex_);
    in_a_row_ = 0;
  }
}

// Any thread; another one may have been faster.
void StepArena::Leave(PlannedArena* arena, std::string reason,
                      bool is_retreat) {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kServing) return;
    facts_.reason = std::move(reason);
    is_retreat_ = is_retreat;
    state_ = State::kLeaving;
  }
  arena->Leave();
}

void StepArena::Record(bool is_wanted) {
  std::lock_guard lock(mutex_);
  is_traced_ = is_wanted;
  if (!is_wanted) {
    trace_.Clear();
    thought_.reset();
    thought_of_.clear();
    in_a_row_ = 0;
    state_ = State::kRecording;
    return;
  }
  trace_.BeginStep();
  const bool was_unclean = clean_steps_ == 0 && unclean_steps_ > 0;
  if (thought_ != nullptr && !was_unclean) return;
  std::vector<StepRequest> step = trace_.Repeated();
  if (step.empty()) return;
  if (thought_ != nullptr && !IsNews(step_, &step)) return;
  if (thought_ == nullptr) unclean_steps_ = 0;
  ThinkOf(std::move(step));
}

// With the mutex held.
void StepArena::ThinkOf(std::vector<StepRequest> step) {
  auto layout = LayOut(step, Carried::kPlaced);
  if (!layout.ok()) {
    facts_.reason = std::string(layout.status().message());
    thought_.reset();
    thought_of_.clear();
    is_traced_ = false;
    state_ = State::kOff;
    return;
  }
  facts_.height = layout->plan.height();
  facts_.bound = layout->bound;
  thought_ = std::make_unique<PlannedArena>(layout->plan, kNowhere, Bytes{0},
                                            /*order=*/nullptr);
  thought_of_.clear();
  step_ = std::move(step);
  judged_ = {};
  clean_steps_ = 0;
  state_ = State::kCounterfactual;
}

void StepArena::Think() {
  {
    std::lock_guard lock(mutex_);
    thought_->BeginPhase(0);
    const ArenaCounts now = thought_->counts();
    const ArenaCounts before = std::exchange(judged_, now);
    facts_.counts = now;
    if (Mismatches(before, now) > 0) {
      facts_.reason = Describe(before, now);
      clean_steps_ = 0;
      if (++unclean_steps_ < kMostUnclean) return;
      // Laid out anew for the steps that there are now.
      thought_.reset();
      thought_of_.clear();
      Retry();
      return;
    }
    if (++clean_steps_ < kCleanSteps) return;
    thought_.reset();
    thought_of_.clear();
    trace_.Clear();
    is_traced_ = false;
  }
  TakeOver();
}

// With the mutex held.
void StepArena::Retry(bool is_retreat) {
  if (is_retreat) {
    ++facts_.retreats;
    ++in_a_row_;
  }
  state_ = in_a_row_ < kMostRetreats ? State::kRecording : State::kOff;
  if (state_ == State::kOff) is_traced_ = false;
}

void* StepArena::Allocate(Bytes size, int stream) {
  PlannedArena* const arena = arena_;
  if (arena == nullptr) return nullptr;
  ArenaVerdict verdict;
  void* const block = arena->Allocate(size, stream, &verdict);
  const bool is_mismatch = verdict.what == ArenaVerdict::What::kUnexpected ||
                           verdict.what == ArenaVerdict::What::kOccupied;
  if (is_mismatch) NoteMismatch(verdict.slot, size);
  return verdict.what == ArenaVerdict::What::kUnplaced
             ? ServeCarried(arena, verdict.slot, size, stream)
             : block;
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

void* StepArena::AllocateAnywhere(Bytes size, int stream) {
  PlannedArena* const arena = arena_;
  return arena == nullptr ? nullptr : arena->AllocateAnywhere(size, stream);
}

bool StepArena::Free(void* block, absl::Span<const int> others) {
  PlannedArena* const arena = arena_;
  if (arena == nullptr || !arena->Free(block, others)) return false;
  if (state_ == State::kLeaving) Release();
  return true;
}

void StepArena::OnAllocate(const void* block, Bytes size, int stream) {
  if (!is_traced_) return;
  std::string op = OpName();
  std::lock_guard lock(mutex_);
  trace_.OnAllocate(block, size, stream, std::move(op));
  if (thought_ == nullptr) return;
  if (void* const there = thought_->Allocate(size, stream)) {
    thought_of_[block] = there;
  }
}

void StepArena::OnFree(const void* block) {
  if (!is_traced_) return;
  std::lock_guard lock(mutex_);
  trace_.OnFree(block);
  const auto there = thought_of_.find(block);
  if (there == thought_of_.end()) return;
  thought_->Free(there->second);
  thought_of_.erase(there);
}

bool StepArena::Owns(const void* address) const {
  const ArenaSpace* const space = space_;
  return space != nullptr && space->RunOf(address) != nullptr;
}

ArenaRun StepArena::RunOf(const void* address) const {
  return *space_.load()->RunOf(address);
}

StepArena::Facts StepArena::facts() const {
  std::lock_guard lock(mutex_);
  Facts facts = facts_;
  facts.state = state_;
  if (const ArenaSpace* const space = space_) {
    facts.size = space->size();
    facts.runs = static_cast<int>(space->runs().size());
  }
  if (const PlannedArena* const arena = arena_) facts.counts = arena->counts();
  return facts;
}

}  // namespace ebbtide
