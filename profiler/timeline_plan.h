// The unmanaged step of a trace's profile, and its plan.
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

// Reads the texts of a trace; a missing or invalid one is left out.
PlanComparison ComparePlans(const std::string& profile,
                            const std::string& plan);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_PLAN_H_
