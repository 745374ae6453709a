#include "planner/contest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ebbtide {
namespace {

constexpr size_t kRemembered = 32;  // steps
constexpr size_t kLast = 8;         // the last of them, with which plans
                                    // compete
constexpr int kEnough = 8;          // steps after which planning is given up
constexpr double kFar = 1.25;       // a single step that is slower ends a trial
constexpr double kNoise = 1.05;     // differences within it are ignored

constexpr size_t kNeighbours = 5;  // neighbours whose times count
constexpr size_t kFewest = 3;      // that say anything

bool IsInTrial(const Contestant& plan, Time least) {
  // A plan whose predicted time is within noise of the fastest would not
  // replace it.
  if (plan.steps == 0) {
    return plan.expected < least && kNoise * plan.predicted < least;
  }
  return plan.steps < kTrial && plan.least <= kFar * least;
}

// By what is expected, where that is known of all.
std::vector<int> InOrder(absl::Span<const Contestant> plans) {
  const bool known =
      std::all_of(plans.begin(), plans.end(),
                  [](const Contestant& plan) { return plan.expected > 0; });
  std::vector<int> order(plans.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return known ? plans[a].expected < plans[b].expected
                 : plans[a].predicted < plans[b].predicted;
  });
  return order;
}

}  // namespace

void StepTimes::Add(Time time) {
  ++steps_;
  last_.push_back(time);
  if (last_.size() > kRemembered) last_.pop_front();
}

Time StepTimes::Least() const {
  if (last_.empty()) return 0;
  return *std::min_element(last_.end() - std::min(last_.size(), kLast),
                           last_.end());
}

Time StepTimes::Median() const {
  if (last_.empty()) return 0;
  std::vector<Time> sorted(last_.begin(), last_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

Time ExpectedTime(Time predicted, std::vector<Experience> experiences) {
  if (predicted <= 0 || experiences.size() < kFewest) return 0;
  std::sort(experiences.begin(), experiences.end(),
            [&](const Experience& a, const Experience& b) {
              return std::abs(std::log(a.predicted / predicted)) <
                     std::abs(std::log(b.predicted / predicted));
            });
  experiences.resize(std::min(experiences.size(), kNeighbours));
  std::vector<double> ratios;
  for (const Experience& experience : experiences) {
    ratios.push_back(experience.least / experience.predicted);
  }
  const auto middle = ratios.begin() + ratios.size() / 2;
  std::nth_element(ratios.begin(), middle, ratios.end());
  return predicted * *middle;
}

std::optional<int> ChoosePlan(absl::Span<const Contestant> plans, Time demand) {
  if (plans.empty()) return std::nullopt;
  const std::vector<int> order = InOrder(plans);
  const auto first = std::find_if(order.begin(), order.end(), [&](int plan) {
    return plans[plan].steps >= kTrial;
  });
  if (first == order.end()) return order[0];
  int best = *first;
  for (int plan : order) {
    if (plans[plan].predicted >= plans[best].least) continue;
    if (IsInTrial(plans[plan], plans[best].least)) return plan;
    if (plans[plan].steps == 0) continue;
    if (kNoise * plans[plan].least < plans[best].least) best = plan;
  }
  const bool is_lost = demand > 0 && plans[best].steps >= kEnough &&
                       plans[best].least > kNoise * demand;
  return is_lost ? std::nullopt : std::optional<int>(best);
}

}  // namespace ebbtide
