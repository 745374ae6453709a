// Stays of values on the device, as the validator of chain plans follows them.
// Private to planner/chain_validate.cc, which shares no code with others.
#ifndef EBBTIDE_PLANNER_CHAIN_VALIDATE_STAY_H_
#define EBBTIDE_PLANNER_CHAIN_VALIDATE_STAY_H_

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

inline constexpr Time kNever = std::numeric_limits<Time>::infinity();

// x[i] is item 2 i and xb[i] item 2 i + 1.
inline int ItemOf(const ChainAction& a) {
  return 2 * a.stage + (a.item == ChainAction::Item::kXb ? 1 : 0);
}

inline std::string NameOf(int item) {
  return absl::StrCat(item % 2 == 0 ? "x[" : "xb[", item / 2, "]");
}

// One stretch of x[i] or xb[i] on the device, in positions of the action list:
// readable by actions in (first, last].
struct ChainStay {
  int item;
  int first;
  int last;
  int restores = -1;  // the stay whose copy on the host this brings back
  int back = -1;      // the stay that brings this one back
  int offload = -1;   // the action; before `last` where it is read once more
  int save = 0;
  Bytes bytes{};
  Time ready = 0;
  Time gone = kNever;  // end of the offload's copy
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_VALIDATE_STAY_H_
