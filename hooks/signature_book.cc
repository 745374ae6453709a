#include "hooks/signature_book.h"

#include <algorithm>
#include <utility>

#include "hooks/plan_run.h"

namespace ebbtide {
namespace {

// A plan that takes the place of another has to pay for being laid out, which
// takes about a step: it does within 300 steps.
bool IsWorth(const Plan& plan, const Candidate& other) {
  constexpr double kGain = 0.003;
  const Time gain = other.plan->plan.time - plan.time;
  return gain >
         kGain * std::max(other.plan->plan.time, other.times.Least() * 1e9);
}

}  // namespace

bool SignatureBook::Take(std::shared_ptr<const TapePlan> plan) {
  const Plan& made = plan->plan;
  const bool moves = Contains(made, Action::Do::kOffload);
  std::erase_if(candidates, [](const Candidate& c) { return c.is_too_high; });
  const auto old =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const Candidate& c) { return c.moves == moves; });
  if (old != candidates.end()) {
    if (!IsWorth(made, *old)) return false;
    candidates.erase(old);
  }
  candidates.push_back({.plan = std::move(plan), .moves = moves});
  priced_at = 0;
  return true;
}

}  // namespace ebbtide
