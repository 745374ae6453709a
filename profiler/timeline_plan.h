// What a trace's profile says of other budgets, and of none.
#ifndef EBBTIDE_PROFILER_TIMELINE_PLAN_H_
#define EBBTIDE_PROFILER_TIMELINE_PLAN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "planner/curve.h"
#include "planner/units.h"

namespace ebbtide {

struct PlanComparison {
  // Live bytes of a step by the profile: from `at`, a share of the time that
  // forward and backward take, on. Unmanaged, and under the plan in force last
  // (empty without one).
  struct Point {
    double at = 0;
    Bytes live{};
  };
  std::vector<Point> unmanaged;
  std::vector<Point> planned;
  Bytes unmanaged_peak{};
  Time base_time = 0;             // of a step that evicts nothing
  std::vector<CurvePoint> curve;  // step time against budget
};

// Of the texts of a trace; what is missing or not valid is left out. Plans for
// other budgets take at most `time_limit`.
PlanComparison ComparePlans(const std::string& profile, const std::string& plan,
                            absl::Duration time_limit);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_PLAN_H_
