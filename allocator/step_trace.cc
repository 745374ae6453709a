#include "allocator/step_trace.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/place.h"
#include "planner/place_validate.h"

namespace ebbtide {
namespace {

bool AskForTheSame(const std::vector<StepRequest>& a,
                   const std::vector<StepRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const StepRequest& x, const StepRequest& y) {
                      return x.size == y.size && x.stream == y.stream;
                    });
}

Bytes RoundUp(Bytes size) { return Bytes{AlignUp(Count(size), kArenaGrain)}; }

// The instants of a step are its requests. What is alive beyond its end is so
// at the begin of each step.
Buffer BufferOf(const StepRequest& request, int64_t at, int64_t steps_end) {
  Buffer buffer = {.size = RoundUp(request.size),
                   .alignment = Bytes{kArenaGrain}};
  const int64_t end = at + request.life;
  if (end <= steps_end) {
    buffer.live = {.begin = {at}, .end = {end}};
    return buffer;
  }
  buffer.live = {.begin = {0}, .end = {steps_end}};
  if (end - steps_end < at) {
    buffer.gaps = {{.begin = {end - steps_end}, .end = {at}}};
  }
  return buffer;
}

}  // namespace

void StepTrace::BeginStep() {
  ++step_;
  At(step_).clear();
  begins_[step_ % begins_.size()] = count_;
}

void StepTrace::OnAllocate(const void* block, Bytes size, int stream) {
  if (step_ < 0) return;
  alive_[block] = {.step = step_, .request = At(step_).size()};
  At(step_).push_back({.size = size, .stream = stream});
  ++count_;
}

void StepTrace::OnFree(const void* block) {
  const auto found = alive_.find(block);
  if (found == alive_.end()) return;
  const auto [step, request] = found->second;
  alive_.erase(found);
  if (step_ - step >= static_cast<int64_t>(steps_.size())) return;
  const int64_t begin =
      begins_[step % begins_.size()] + static_cast<int64_t>(request);
  At(step)[request].life = count_ - begin;
}

std::vector<StepRequest> StepTrace::Repeated() const {
  // The going on one has no say.
  if (step_ < 3) return {};
  const Step& before = At(step_ - 3);
  Step step = At(step_ - 2);
  if (!AskForTheSame(before, step) || !AskForTheSame(step, At(step_ - 1))) {
    return {};
  }
  const auto count = static_cast<int64_t>(step.size());
  for (size_t i = 0; i < step.size(); ++i) {
    step[i].life = std::max(step[i].life, before[i].life);
    if (step[i].life > count) step[i].life = StepRequest::kLong;
  }
  return step;
}

absl::StatusOr<StepLayout> LayOut(const std::vector<StepRequest>& step) {
  PlaceProblem problem;
  std::vector<size_t> placed;
  const auto count = static_cast<int64_t>(step.size());
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i].life > count) continue;
    placed.push_back(i);
    problem.buffers.push_back(
        BufferOf(step[i], static_cast<int64_t>(i), count));
  }
  auto result = Place(problem, {.nodes = 0});
  if (!result.ok()) return result.status();
  const absl::Status valid = ValidatePlacement(problem, result->placement);
  if (!valid.ok()) {
    return absl::InternalError(
        absl::StrCat("a placement is wrong: ", valid.message()));
  }
  PlannedPhase phase;
  for (const StepRequest& request : step) {
    phase.push_back(
        {.size = request.size, .stream = request.stream, .offset = kUnplaced});
  }
  for (size_t k = 0; k < placed.size(); ++k) {
    phase[placed[k]].offset = Count(result->placement.offsets[k]);
  }
  auto plan = ArenaPlan::Make({phase});
  if (!plan.ok()) return plan.status();
  return StepLayout{.plan = *std::move(plan), .bound = result->bound.bytes};
}

}  // namespace ebbtide
