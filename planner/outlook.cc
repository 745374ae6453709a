#include "planner/outlook.h"

#include <algorithm>

namespace ebbtide {

absl::StatusOr<Outlook> MakeOutlook(const Profile& profile,
                                    const OutlookOptions& options) {
  PlanOptions plans;
  plans.allow_offload = options.offload;
  plans.evaluations = options.evaluations;
  plans.time_limit = options.floor_time;
  Outlook outlook;
  outlook.proven = FindLeastPeak(profile, options.offload);
  auto known = Floor(profile, plans);
  if (!known.ok()) return known.status();
  outlook.known = *std::move(known);
  plans.time_limit = options.curve_time;
  auto curve = options.budgets.empty()
                   ? MakeCurve(profile, plans)
                   : MakeCurveFor(profile, plans, options.budgets);
  if (!curve.ok()) return curve.status();
  outlook.curve = *std::move(curve);
  for (CurvePoint& point : outlook.curve) point.time += profile.tail_time;
  // The curve begins at a floor of its own, whose cause is not known.
  if (!outlook.curve.empty() &&
      outlook.curve.front().budget < outlook.known.bytes) {
    outlook.known = {.bytes = outlook.curve.front().budget};
  }
  return outlook;
}

std::optional<Time> TimeWithin(const Outlook& outlook, Bytes budget) {
  std::optional<Time> time;
  for (const CurvePoint& point : outlook.curve) {
    if (point.budget > budget) continue;
    time = std::min(time.value_or(point.time), point.time);
  }
  return time;
}

}  // namespace ebbtide
