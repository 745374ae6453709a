#include "allocator/arena/step_trace.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/place.h"
#include "planner/place_pages.h"
#include "planner/place_validate.h"

namespace ebbtide {
namespace {

Bytes RoundUp(Bytes size) { return Bytes{AlignUp(Count(size), kArenaGrain)}; }

Lifetime Live(int64_t begin, int64_t end) {
  return {.begin = {begin}, .end = {end}};
}

bool IsPlaced(const std::vector<StepRequest>& step, size_t i) {
  return step[i].life <= static_cast<int64_t>(step.size());
}

// The instants of a step are its requests. What is alive when the next one
// begins is there at both ends of each, and not in between.
Buffer BufferOf(const std::vector<StepRequest>& step, size_t i) {
  const auto count = static_cast<int64_t>(step.size());
  const auto begin = static_cast<int64_t>(i);
  const int64_t end = begin + step[i].life;
  Buffer buffer = {.size = RoundUp(step[i].size),
                   .live = Live(begin, end),
                   .alignment = Bytes{kArenaGrain}};
  if (end <= count) return buffer;
  buffer.live = Live(0, count);
  if (end - count < begin) buffer.gaps = {Live(end - count, begin)};
  return buffer;
}

// In fewer pages than the placement takes; empty where that cannot be.
std::vector<PageSpot> Scatter(const PlaceProblem& problem, const Placed& placed,
                              Bytes page) {
  constexpr int64_t kApart = 256;  // part by which attempts differ
  if (page == Bytes{0}) return {};
  const int64_t most = AlignUp(Count(placed.placement.height), Count(page));
  int64_t pages = (Count(placed.bound.bytes) - 1) / Count(page) + 1;
  for (; pages * Count(page) < most; pages += pages / kApart + 1) {
    auto spots = PlaceInPages(problem, placed.placement.offsets, page, pages);
    if (spots) return *std::move(spots);
  }
  return {};
}

}  // namespace

bool AskForTheSame(const std::vector<StepRequest>& a,
                   const std::vector<StepRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const StepRequest& x, const StepRequest& y) {
                      return x.size == y.size && x.stream == y.stream;
                    });
}

void StepTrace::BeginStep() {
  ++step_;
  At(step_).clear();
}

void StepTrace::OnAllocate(const void* block, Bytes size, int stream,
                           std::string op) {
  if (step_ < 0) return;
  alive_[block] = {step_, At(step_).size(), count_++};
  At(step_).push_back({.size = size, .stream = stream, .op = std::move(op)});
}

void StepTrace::OnFree(const void* block) {
  const auto found = alive_.find(block);
  if (found == alive_.end()) return;
  const auto [step, request, number] = found->second;
  alive_.erase(found);
  if (step_ - step >= std::ssize(steps_)) return;
  At(step)[request].life = count_ - number;
}

std::vector<StepRequest> StepTrace::Repeated() const {
  // The going on one has no say.
  if (step_ < 2) return {};
  Step step = At(step_ - 2);
  if (!AskForTheSame(step, At(step_ - 1))) return {};
  const auto count = static_cast<int64_t>(step.size());
  for (StepRequest& request : step) {
    if (request.life > count) request.life = StepRequest::kLong;
  }
  return step;
}

absl::StatusOr<StepLayout> LayOut(const std::vector<StepRequest>& step,
                                  Bytes page) {
  PlaceProblem problem;
  std::vector<size_t> placed;
  for (size_t i = 0; i < step.size(); ++i) {
    if (!IsPlaced(step, i)) continue;
    placed.push_back(i);
    problem.buffers.push_back(BufferOf(step, i));
  }
  StepLayout layout;
  // Rounds, but no search: what it leaves is scattered.
  auto result = Place(problem, {.nodes = 1});
  if (!result.ok()) return result.status();
  layout.bound = result->bound.bytes;
  const absl::Status valid = ValidatePlacement(problem, result->placement);
  if (!valid.ok()) {
    return absl::InternalError(
        absl::StrCat("a placement is wrong: ", valid.message()));
  }
  std::vector<PlannedRequest> planned;
  for (const StepRequest& request : step) {
    planned.push_back(
        {.size = request.size, .stream = request.stream, .offset = kUnplaced});
  }
  const std::vector<PageSpot> spots = Scatter(problem, *result, page);
  for (size_t k = 0; k < placed.size(); ++k) {
    PlannedRequest& request = planned[placed[k]];
    request.offset =
        Count(spots.empty() ? result->placement.offsets[k] : spots[k].offset);
    if (!spots.empty()) request.pages = spots[k].pages;
  }
  auto plan =
      ArenaPlan::Make(planned, spots.empty() ? Bytes{kArenaGrain} : page);
  if (!plan.ok()) return plan.status();
  layout.plan = *std::move(plan);
  return layout;
}

}  // namespace ebbtide
