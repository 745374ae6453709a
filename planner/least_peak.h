// A lower bound on the peak of any plan for a profile, from single instants.
//
// At an instant all bytes are on the device that it reads or makes, that the
// script holds, and, without a lane to the host, every saved value that cannot
// be recomputed and is still to come. Fast: one pass over the profile. The
// least peak of a known plan (planner/plan.h, Floor) is never less.
#ifndef EBBTIDE_PLANNER_LEAST_PEAK_H_
#define EBBTIDE_PLANNER_LEAST_PEAK_H_

#include <string>
#include <vector>

#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

struct LeastPeak {
  Bytes bytes{};
  Bytes other{};     // part of it that is not saved values
  int instant = 0;   // as in planner/profile.h; ops + stages: the tail
  std::string name;  // "op 12 aten::mm", "stage 3 MmBackward0", "tail"
  // The saved values that are the rest, in their order.
  std::vector<int> values;
};

// `profile` must be valid. `offload`: as if there were a lane to the host.
LeastPeak FindLeastPeak(const Profile& profile, bool offload);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_LEAST_PEAK_H_
