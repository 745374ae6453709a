#include "profiler/timeline_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/simulate.h"

namespace ebbtide {
namespace {

// More than a page is wide.
constexpr size_t kMostPoints = 4000;

// Live bytes at the instants of a simulated step, against the time of an
// unmanaged one. The highest of several instants drawn as one counts.
std::vector<PlanComparison::Point> PointsOf(const Profile& profile,
                                            const Simulation& simulation) {
  const double whole = std::max(1.0, BaseTime(profile));
  const size_t ops = profile.ops.size();
  const size_t group = simulation.curve.size() / kMostPoints + 1;
  std::vector<PlanComparison::Point> points;
  double time = 0;
  for (size_t i = 0; i < simulation.curve.size(); ++i) {
    const Bytes live = simulation.curve[i];
    if (i % group == 0) {
      points.push_back({time / whole, live});
    } else {
      points.back().live = std::max(points.back().live, live);
    }
    if (i < ops) {
      time += profile.ops[i].time;
    } else if (i < ops + profile.stages.size()) {
      time += profile.stages[i - ops].time;
    }
  }
  return points;
}

}  // namespace

PlanComparison ComparePlans(const std::string& profile_text,
                            const std::string& plan_text) {
  constexpr Bytes kNoLimit{std::numeric_limits<int64_t>::max() / 2};
  PlanComparison comparison;
  const auto profile = ProfileFromJson(profile_text, "profile");
  if (!profile.ok()) return comparison;
  comparison.unmanaged_peak = UnmanagedPeak(*profile);
  const auto keep = MakePlan(
      *profile, {.budget = comparison.unmanaged_peak, .solver = "keep"});
  if (keep.ok() && keep->feasible) {
    const auto simulated = Simulate(*profile, keep->actions, kNoLimit);
    if (simulated.ok()) comparison.unmanaged = PointsOf(*profile, *simulated);
  }
  const auto plan = PlanFromJson(plan_text, "plan");
  if (plan.ok()) {
    const auto simulated = Simulate(*profile, plan->actions, kNoLimit);
    if (simulated.ok()) comparison.planned = PointsOf(*profile, *simulated);
  }
  return comparison;
}

}  // namespace ebbtide
