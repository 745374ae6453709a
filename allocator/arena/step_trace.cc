#include "allocator/arena/step_trace.h"

#include <algorithm>
#include <utility>

#include "planner/place_step.h"

namespace ebbtide {

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

Bytes StepTrace::Returning(const std::vector<StepRequest>& step) const {
  Bytes bytes{};
  for (const auto& [block, place] : alive_) {
    if (place.step != step_ - 1 || place.request >= step.size()) continue;
    const StepRequest& request = step[place.request];
    if (request.life <= std::ssize(step)) bytes += request.size;
  }
  return bytes;
}

absl::StatusOr<StepLayout> LayOut(const std::vector<StepRequest>& step,
                                  Bytes page) {
  std::vector<StepBlock> blocks;
  for (const StepRequest& request : step) {
    blocks.push_back({.size = request.size, .life = request.life});
  }
  auto placed = PlaceStep(blocks, Bytes{kArenaGrain}, page);
  if (!placed.ok()) return placed.status();
  std::vector<PlannedRequest> planned;
  for (size_t i = 0; i < step.size(); ++i) {
    planned.push_back(
        {.size = step[i].size, .stream = step[i].stream, .offset = kUnplaced});
    if (!placed->spots[i]) continue;
    planned.back().offset = Count(placed->spots[i]->offset);
    planned.back().pages = std::move(placed->spots[i]->pages);
  }
  return StepLayout{.plan = ArenaPlan::Make(
                        planned, page > Bytes{0} ? page : Bytes{kArenaGrain}),
                    .bound = placed->bound};
}

}  // namespace ebbtide
