#include "allocator/step_arena.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

// Steps of a thought that are not clean, after which it is given up.
constexpr int kMostUnclean = 8;
// One of so many requests that is not as planned is none too many.
constexpr int64_t kTolerance = 100;
// Of the height: for what is not as planned.
constexpr int64_t kFallbackPart = 256;
constexpr int64_t kFallbackGrain = 2 << 20;

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

// A plan that leaves every request to others.
ArenaPlan NothingOf(const std::vector<StepRequest>& step) {
  PlannedPhase phase;
  for (const StepRequest& request : step) {
    phase.push_back(
        {.size = request.size, .stream = request.stream, .offset = kUnplaced});
  }
  return *ArenaPlan::Make({phase});
}

ArenaSpace SpaceOf(const std::vector<ArenaRun>& runs) {
  ArenaSpace space;
  for (const ArenaRun& run : runs) space.Append(run);
  return space;
}

// Of a plan's height what is not walls.
Bytes WithoutWalls(Bytes height, const ArenaSpace& space) {
  int64_t walls = 0;
  for (const int64_t wall : space.Walls()) {
    if (wall < Count(height)) ++walls;
  }
  return height - Bytes{walls * kArenaGrain};
}

Bytes FallbackFor(Bytes height) {
  return Bytes{Count(height) / kFallbackPart / kFallbackGrain * kFallbackGrain};
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
    Leave(is_bad ? Describe(before, now) : "steps follow no plan any more",
          /*is_retreat=*/is_wanted);
  } else if (bad_steps_ == 0 && ++good_steps_ % kForgiven == 0) {
    std::lock_guard lock(mutex_);
    in_a_row_ = 0;
  }
}

void StepArena::Leave(std::string reason, bool is_retreat) {
  (*arena_).Leave();
  std::lock_guard lock(mutex_);
  facts_.reason = std::move(reason);
  is_retreat_ = is_retreat;
  state_ = State::kLeaving;
}

// Whoever frees the last block, or begins a step when there is none.
void StepArena::Release() {
  PlannedArena* arena = arena_;
  if (arena == nullptr || !arena->Close()) return;
  if (!arena_.compare_exchange_strong(arena, nullptr)) return;
  // Others may have the addresses as soon as they are given back.
  const ArenaSpace* const space = space_.exchange(nullptr);
  if (!memory_.GiveBack(space->runs())) {
    space_ = space;
    arena_ = arena;
    return;
  }
  std::lock_guard lock(mutex_);
  facts_.counts = arena->counts();
  Retry(is_retreat_);
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
  if (thought_ != nullptr) return;
  std::vector<StepRequest> step = trace_.Repeated();
  if (step.empty()) return;
  auto layout = LayOut(step);
  if (!layout.ok()) {
    facts_.reason = std::string(layout.status().message());
    is_traced_ = false;
    state_ = State::kOff;
    return;
  }
  facts_.height = layout->plan.height();
  facts_.bound = layout->bound;
  thought_ = std::make_unique<PlannedArena>(layout->plan, kNowhere, Bytes{0},
                                            /*order=*/nullptr);
  step_ = std::move(step);
  judged_ = {};
  clean_steps_ = 0;
  unclean_steps_ = 0;
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

void StepArena::TakeOver() {
  std::vector<ArenaRun> runs;
  Bytes fallback{};
  auto plan = TakeMemory(&runs, &fallback);
  const std::string reason(plan.status().message());
  if (!plan.ok()) {
    if (memory_.GiveBack(runs)) {
      std::lock_guard lock(mutex_);
      facts_.reason = reason;
      return Retry();
    }
    plan = NothingOf(step_);
    fallback = Bytes{};
  }
  const ArenaSpace space = SpaceOf(runs);
  {
    std::lock_guard lock(mutex_);
    facts_.height = WithoutWalls(plan->height(), space);
    facts_.carried = 0;
    facts_.carried_bytes = Bytes{};
  }
  arenas_.push_back(std::make_unique<PlannedArena>(*std::move(plan), space,
                                                   fallback, &order_));
  judged_ = {};
  bad_steps_ = 0;
  space_ = Publish(space);
  arena_ = arenas_.back().get();
  state_ = State::kServing;
  if (!reason.empty()) Leave(reason, /*is_retreat=*/true);
}

// The plan, for runs that it takes for it.
absl::StatusOr<ArenaPlan> StepArena::TakeMemory(std::vector<ArenaRun>* runs,
                                                Bytes* fallback) {
  const absl::Status holes = memory_.TakeHoles(runs);
  if (!holes.ok()) return holes;
  const ArenaSpace space = SpaceOf(*runs);
  auto layout = LayOut(step_, space.Walls());
  if (!layout.ok()) return layout.status();
  const Bytes height = layout->plan.height();
  if (height == Bytes{0}) {
    return absl::NotFoundError("nothing of a step can be placed");
  }
  const Bytes more = height - Bytes{space.next()};
  if (more > Bytes{0}) {
    *fallback = FallbackFor(height);
    const absl::Status rest = memory_.Take(more + *fallback, runs);
    if (!rest.ok()) return rest;
  }
  return std::move(layout->plan);
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

bool StepArena::MayCarry(int slot) const {
  std::lock_guard lock(mutex_);
  return slot < static_cast<int>(step_.size()) &&
         step_[slot].life <= static_cast<int64_t>(step_.size()) &&
         facts_.carried < static_cast<int>(kMostCarried);
}

const ArenaSpace* StepArena::Publish(ArenaSpace space) {
  std::lock_guard lock(mutex_);
  spaces_.push_back(std::make_unique<const ArenaSpace>(std::move(space)));
  return spaces_.back().get();
}

void* StepArena::ServeCarried(PlannedArena* arena, int slot, Bytes size,
                              int stream) {
  if (!MayCarry(slot)) return nullptr;
  const std::optional<ArenaRun> run = memory_.TakeFor(size, stream);
  if (!run) return nullptr;
  const ArenaSpace* before = space_;
  const ArenaSpace* after = nullptr;
  do {
    if (before == nullptr) {  // the arena has ended meanwhile
      memory_.GiveBack({&*run, 1});
      return nullptr;
    }
    ArenaSpace space = *before;
    space.Append(*run);
    after = Publish(std::move(space));
  } while (!space_.compare_exchange_weak(before, after));
  void* const block = arena->ServeFrom(*run, slot);
  if (block != nullptr) {
    std::lock_guard lock(mutex_);
    ++facts_.carried;
    facts_.carried_bytes += run->size;
  }
  return block;
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
