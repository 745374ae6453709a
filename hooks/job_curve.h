// Step time against budget for the job so far, for the program itself.
#ifndef EBBTIDE_HOOKS_JOB_CURVE_H_
#define EBBTIDE_HOOKS_JOB_CURVE_H_

#include <string>

#include "absl/time/time.h"
#include "planner/profile.h"

namespace ebbtide {

// {"points":[{"budget":bytes,"seconds":..},..],"spilling":[..]|null}, each from
// the least known budget on, whole steps ("spilling": plans that offload);
// {"why":".."} for nullptr, or if the planner refuses the profile. Takes
// `limit` for each list.
std::string CurveToJson(const Profile* profile, absl::Duration limit);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_JOB_CURVE_H_
