// Step time against budget, for chains and profiles.
#ifndef EBBTIDE_PLANNER_CURVE_H_
#define EBBTIDE_PLANNER_CURVE_H_

#include "planner/units.h"

namespace ebbtide {

// The time of the best plan known within `budget`; it holds up to the next
// point.
struct CurvePoint {
  Bytes budget{};
  Time time = 0;
  // As a chain plan's (planner/chain_plan.h): no plan within `budget` is faster
  // than time / (1 + rounding_loss).
  double rounding_loss = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CURVE_H_
