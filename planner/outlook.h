// Results of one way to hold budgets for a step: the floor, proven and known,
// and the time against the budget, of whole steps.
#ifndef EBBTIDE_PLANNER_OUTLOOK_H_
#define EBBTIDE_PLANNER_OUTLOOK_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/least_peak.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

struct Outlook {
  LeastPeak proven;  // no plan needs less
  // By the best plan known. Without a name: it is the least of the curve.
  FloorResult known;
  // Times are of whole steps, the tail with them.
  std::vector<CurvePoint> curve;
};

struct OutlookOptions {
  bool offload = false;  // copies may be planned, in the profile's lanes
  absl::Duration floor_time = absl::Seconds(2);
  absl::Duration curve_time = absl::Seconds(8);
  // As PlanOptions::evaluations, of each point: with a number the same file
  // gives the same outlook, as long as the time is enough.
  int64_t evaluations = 0;
  // That the curve has points for; empty: from the floor on, in equal steps.
  std::vector<Bytes> budgets;
};

// Errors: as MakeCurve.
absl::StatusOr<Outlook> MakeOutlook(const Profile& profile,
                                    const OutlookOptions& options);

// As MakeCurve, by the graph solver, for these budgets. Those without a plan,
// or with none that is faster than that for less, are left out.
absl::StatusOr<std::vector<CurvePoint>> MakeCurveFor(
    const Profile& profile, const PlanOptions& options,
    const std::vector<Bytes>& budgets);

// The fastest step within `budget`; nullopt: no plan is known.
std::optional<Time> TimeWithin(const Outlook& outlook, Bytes budget);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_OUTLOOK_H_
