// What a step arena has of the memory that it is lent.
#include <algorithm>
#include <numeric>
#include <utility>

#include "allocator/step_arena.h"
#include "planner/place_problem.h"
#include "planner/units.h"

namespace ebbtide {
namespace {

// Of the height: for what is not as planned.
constexpr int64_t kFallbackPart = 256;
constexpr int64_t kFallbackGrain = 2 << 20;

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

// Enough for the steps of unet and resnet, in some 0.2 s where the greedy
// orders leave more than nothing.
constexpr int64_t kNodes = 50'000;
// Of its bound: holes that a plan wastes more in are not worth having.
constexpr int64_t kWasteful = 100;

// A step that is laid out in runs, and in one behind them that there is not
// yet.
struct Outline {
  StepLayout layout;
  ArenaSpace space;
  std::vector<Bytes> used;  // by run of the space

  Bytes missing() const { return used.back(); }
  bool IsWasteful() const {
    const Bytes sum = std::accumulate(used.begin(), used.end(), Bytes{});
    return sum > layout.bound + Bytes{Count(layout.bound) / kWasteful};
  }
};

absl::StatusOr<Outline> Sketch(const std::vector<StepRequest>& step,
                               Carried carried,
                               const std::vector<ArenaRun>& runs) {
  Outline outline = {.space = SpaceOf(runs)};
  auto layout = LayOut(step, carried, outline.space.Walls(), kNodes);
  if (!layout.ok()) return layout.status();
  outline.layout = *std::move(layout);
  const Bytes height = outline.layout.plan.height();
  if (height == Bytes{0}) {
    return absl::NotFoundError("nothing of a step can be placed");
  }
  outline.space.Append({.size = height});
  auto used = UsedOf(outline.layout.plan, outline.space);
  if (!used.ok()) return used.status();
  outline.used = *std::move(used);
  return outline;
}

absl::StatusOr<ArenaFit> FitOf(const Outline& outline,
                               const std::vector<ArenaRun>& runs,
                               Bytes fallback) {
  auto fit = FitInto(runs, fallback, outline.layout.plan, outline.space);
  if (fit.ok()) fit->bound = outline.layout.bound;
  return fit;
}

Bytes FallbackFor(Bytes height) {
  return Bytes{Count(height) / kFallbackPart / kFallbackGrain * kFallbackGrain};
}

}  // namespace

void StepArena::TakeOver() {
  std::vector<ArenaRun> runs;
  auto fit = TakeMemory(&runs);
  const std::string reason(fit.status().message());
  if (!fit.ok()) {
    if (memory_.GiveBack(runs)) {
      std::lock_guard lock(mutex_);
      facts_.reason = reason;
      return Retry();
    }
    fit = ArenaFit{.plan = NothingOf(step_), .space = SpaceOf(runs)};
  }
  {
    std::lock_guard lock(mutex_);
    facts_.height = WithoutWalls(fit->plan.height(), fit->space);
    facts_.bound = fit->bound;
    facts_.carried = 0;
    facts_.carried_bytes = Bytes{};
    ends_ = std::move(fit->ends);
  }
  arenas_.push_back(std::make_unique<PlannedArena>(
      std::move(fit->plan), std::move(fit->space), fit->fallback, &order_));
  judged_ = {};
  bad_steps_ = 0;
  space_ = Publish(SpaceOf(runs));
  arena_ = arenas_.back().get();
  state_ = State::kServing;
  if (!reason.empty()) Leave(arenas_.back().get(), reason, /*is_retreat=*/true);
}

// The plan, for runs that it takes for it.
absl::StatusOr<ArenaFit> StepArena::TakeMemory(std::vector<ArenaRun>* runs) {
  const absl::Status holes = memory_.TakeHoles(runs);
  if (!holes.ok()) return holes;
  auto fit = TakeBesideHoles(Carried::kPlaced, runs);
  if (!absl::IsResourceExhausted(fit.status())) return fit;
  // What is carried now has memory until the program frees it.
  fit = TakeBesideHoles(Carried::kUnplaced, runs);
  if (!absl::IsResourceExhausted(fit.status())) return fit;
  // Only where nothing else helps: in pieces a step is harder to place.
  const size_t before = runs->size();
  const absl::Status small = memory_.TakeSmallHoles(runs);
  if (!small.ok()) return small;
  return runs->size() == before ? fit
                                : TakeBesideHoles(Carried::kUnplaced, runs);
}

// The plan in those, and in what is missing beside them.
absl::StatusOr<ArenaFit> StepArena::TakeBesideHoles(
    Carried carried, std::vector<ArenaRun>* runs) {
  auto outline = Sketch(step_, carried, *runs);
  if (!outline.ok()) return outline.status();
  if (!runs->empty() && outline->IsWasteful()) {
    auto fit = TakeInsteadOfHoles(carried, runs);
    if (!absl::IsResourceExhausted(fit.status())) return fit;
  }
  Bytes fallback{};
  if (outline->missing() == Bytes{0}) {
    outline->used.pop_back();
  } else {
    fallback = FallbackFor(outline->layout.plan.height());
    const absl::Status rest = memory_.Take(outline->missing() + fallback, runs);
    if (!rest.ok()) return rest;
  }
  const absl::Status held = HoldWhatIsUsed(outline->used, fallback, runs);
  if (!held.ok()) return held;
  return FitOf(*outline, *runs, fallback);
}

// The plan in one piece, for which all holes go back. ResourceExhausted, and
// nothing is done, where there is none.
absl::StatusOr<ArenaFit> StepArena::TakeInsteadOfHoles(
    Carried carried, std::vector<ArenaRun>* runs) {
  auto outline = Sketch(step_, carried, {});
  if (!outline.ok()) return outline.status();
  const Bytes fallback = FallbackFor(outline->layout.plan.height());
  std::vector<ArenaRun> alone;
  const absl::Status taken =
      memory_.Take(outline->missing() + fallback, &alone);
  if (!taken.ok()) return taken;
  if (!memory_.GiveBack(*runs)) {
    runs->insert(runs->end(), alone.begin(), alone.end());
    return absl::UnavailableError("holes cannot be given back now");
  }
  *runs = std::move(alone);
  return FitOf(*outline, *runs, fallback);
}

// Whatever becomes of it, `runs` are what the arena has then.
absl::Status StepArena::HoldWhatIsUsed(const std::vector<Bytes>& used,
                                       Bytes fallback,
                                       std::vector<ArenaRun>* runs) {
  for (size_t i = used.size(); i-- > 0;) {
    const auto run = runs->begin() + static_cast<ptrdiff_t>(i);
    if (used[i] == Bytes{0}) {
      if (!memory_.GiveBack({&*run, 1})) {
        return absl::UnavailableError("a run cannot be given back now");
      }
      runs->erase(run);
      continue;
    }
    const bool is_last = i + 1 == used.size();
    const absl::Status status =
        memory_.Shorten(used[i] + (is_last ? fallback : Bytes{0}), &*run);
    if (run->size == Bytes{0}) runs->erase(run);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
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

bool StepArena::GiveUpIdle() {
  PlannedArena* const arena = arena_;
  if (arena == nullptr) return false;
  Leave(arena, "memory was missing beside it", /*is_retreat=*/true);
  const ArenaSpace* const space = space_;
  if (space == nullptr) return false;
  const std::vector<ArenaRun> idle = arena->CloseIdle(space->runs());
  if (idle.empty()) return false;
  return !Withdraw(arena, idle) || GiveBackOrKeep(idle);
}

// Others may have the addresses as soon as they are given back. False where the
// arena has been released meanwhile, and they with it.
bool StepArena::Withdraw(const PlannedArena* arena,
                         absl::Span<const ArenaRun> runs) {
  const auto is_withdrawn = [&](const ArenaRun& run) {
    return std::any_of(runs.begin(), runs.end(), [&](const ArenaRun& other) {
      return other.base == run.base;
    });
  };
  const ArenaSpace* before = space_;
  const ArenaSpace* after = nullptr;
  do {
    if (before == nullptr || arena_ != arena) return false;
    ArenaSpace space;
    for (const ArenaRun& run : before->runs()) {
      if (!is_withdrawn(run)) space.Append(run);
    }
    after = Publish(std::move(space));
  } while (!space_.compare_exchange_weak(before, after));
  return true;
}

// False, and they are kept until a step begins, where this is not the time.
bool StepArena::GiveBackOrKeep(const std::vector<ArenaRun>& runs) {
  if (memory_.GiveBack(runs)) return true;
  std::lock_guard lock(mutex_);
  kept_.insert(kept_.end(), runs.begin(), runs.end());
  return false;
}

void StepArena::GiveBackKept() {
  std::vector<ArenaRun> kept;
  {
    std::lock_guard lock(mutex_);
    kept.swap(kept_);
  }
  if (!kept.empty()) GiveBackOrKeep(kept);
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

// Of the shortest one that has so many bytes.
std::optional<ArenaRun> StepArena::TakeEnd(Bytes size) {
  size = Bytes{AlignUp(Count(size), kArenaGrain)};
  std::lock_guard lock(mutex_);
  const auto by_size = [&](const ArenaRun& a, const ArenaRun& b) {
    return std::pair(a.size < size, a.size) < std::pair(b.size < size, b.size);
  };
  const auto end = std::min_element(ends_.begin(), ends_.end(), by_size);
  if (end == ends_.end() || end->size < size) return std::nullopt;
  const ArenaRun taken = {.base = end->base, .size = size};
  *end = {.base = end->base + Count(size), .size = end->size - size};
  return taken;
}

std::optional<ArenaRun> StepArena::TakeRunFor(Bytes size, int stream) {
  const std::optional<ArenaRun> run = memory_.TakeFor(size, stream);
  if (!run) return std::nullopt;
  const ArenaSpace* before = space_;
  const ArenaSpace* after = nullptr;
  do {
    if (before == nullptr) {  // the arena has ended meanwhile
      memory_.GiveBack({&*run, 1});
      return std::nullopt;
    }
    ArenaSpace space = *before;
    space.Append(*run);
    after = Publish(std::move(space));
  } while (!space_.compare_exchange_weak(before, after));
  return run;
}

void* StepArena::ServeCarried(PlannedArena* arena, int slot, Bytes size,
                              int stream) {
  if (!MayCarry(slot)) return nullptr;
  std::optional<ArenaRun> run = TakeEnd(size);
  if (!run) run = TakeRunFor(size, stream);
  if (!run) return nullptr;
  void* const block = arena->ServeFrom(*run, slot);
  if (block != nullptr) {
    std::lock_guard lock(mutex_);
    ++facts_.carried;
    facts_.carried_bytes += run->size;
  }
  return block;
}

}  // namespace ebbtide
