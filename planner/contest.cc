#include "planner/contest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ebbtide {
namespace {

constexpr int kLast = 8;         // steps that are remembered
constexpr int kTrial = 3;        // steps after which a plan is known
constexpr int kEnough = 8;       // and known well enough to give up planning
constexpr double kFar = 1.25;    // a single step that is slower ends a trial
constexpr double kNoise = 1.05;  // what is within it is no difference

bool IsInTrial(const Contestant& plan, Time least) {
  return plan.steps == 0 || (plan.steps < kTrial && plan.least <= kFar * least);
}

}  // namespace

void StepTimes::Add(Time time) {
  ++steps_;
  last_.push_back(time);
  if (static_cast<int>(last_.size()) > kLast) last_.pop_front();
}

Time StepTimes::Least() const {
  return last_.empty() ? 0 : *std::min_element(last_.begin(), last_.end());
}

std::optional<int> ChoosePlan(absl::Span<const Contestant> plans, Time demand) {
  if (plans.empty()) return std::nullopt;
  std::vector<int> order(plans.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return plans[a].predicted < plans[b].predicted;
  });
  int best = order[0];
  if (plans[best].steps < kTrial) return best;
  for (int plan : order) {
    // A whole step takes longer than its forward and backward.
    if (plans[plan].predicted >= plans[best].least) break;
    if (IsInTrial(plans[plan], plans[best].least)) return plan;
    if (kNoise * plans[plan].least < plans[best].least) best = plan;
  }
  const bool is_lost = demand > 0 && plans[best].steps >= kEnough &&
                       plans[best].least > kNoise * demand;
  return is_lost ? std::nullopt : std::optional<int>(best);
}

}  // namespace ebbtide
