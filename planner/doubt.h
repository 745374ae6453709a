// The uncertainty of a profile's times, and its effect on a plan.
#ifndef EBBTIDE_PLANNER_DOUBT_H_
#define EBBTIDE_PLANNER_DOUBT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

// An op or a stage, and what the plan would take if it took longer.
struct Doubt {
  int instant = 0;  // as in planner/profile.h
  Time time = 0;
  TimeSpread spread;
  Time upper =
      0;         // the upper end: the median and the distance of the quartiles
  int runs = 0;  // that the plan makes of it
  // By how much the plan takes longer if each of them took `upper`, by the
  // simulator. Less than runs * (upper - time) where copies are waited for
  // anyhow.
  Time moves = 0;
};

// The ops and stages that move the plan most, no more than `most` of them, the
// first the one that moves it most. Those that move nothing are left out, and
// so are those whose spread is unknown. Only the 10 * `most` for which runs *
// (upper
// - time) is largest are simulated. An error: the plan is not one of the
// profile.
absl::StatusOr<std::vector<Doubt>> RankDoubts(const Profile& profile,
                                              const Plan& plan, int most);

// Instants whose op or stage was slow once: it took more than twice its median,
// by more than a hundredth of the step's ops and stages together. The slowest
// first.
std::vector<int> Outliers(const Profile& profile);

// True if the spread of any op or stage is known.
bool KnowsSpread(const Profile& profile);

// Spread of an instant before the tail.
const TimeSpread& SpreadAt(const Profile& profile, int instant);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_DOUBT_H_
