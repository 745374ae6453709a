// What a trace's profile says of a step without a budget, and of its plan.
#ifndef EBBTIDE_PROFILER_TIMELINE_PLAN_H_
#define EBBTIDE_PROFILER_TIMELINE_PLAN_H_

#include <string>
#include <vector>

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
};

// Of the texts of a trace; what is missing or not valid is left out.
PlanComparison ComparePlans(const std::string& profile,
                            const std::string& plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_PLAN_H_
