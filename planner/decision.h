// What a plan does to each value, and the facts that speak for it and against
// it: what its recipe takes, what its copies take, what rules either out.
#ifndef EBBTIDE_PLANNER_DECISION_H_
#define EBBTIDE_PLANNER_DECISION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

enum class Fate { kKept, kOffloaded, kRecomputed, kBoth };
// "kept", "offloaded", "recomputed", "offloaded and recomputed".
const char* FateName(Fate fate);

struct Decision {
  int value = 0;  // index in the profile
  Bytes bytes{};
  Fate fate = Fate::kKept;
  // First stage that needs it; -1: none does.
  int first_stage = -1;

  // The ops that make it again where every other saved value is there, and what
  // they take. 0 ops: there is no such recipe, because of `blocker`.
  int recipe_ops = 0;
  Time recipe = 0;
  int blocker = -1;  // an op that does not replay
  int reruns = 0;    // that the plan makes of the value's own op

  // What each copy of its bytes takes, and how much sooner the plan's last
  // action would end without them, by the simulator and with no budget. 0 where
  // the profile has no lane.
  Time out = 0;
  Time back = 0;
  Time waits = 0;
  // The script lets go of it only after its last use: nothing could be gained.
  bool is_held = false;

  // All that in a sentence without an end.
  std::string reason;
};

// Of the `most` largest saved values, the largest first, those of equal size in
// their order. Errors: the plan is not one of the profile.
absl::StatusOr<std::vector<Decision>> ExplainPlan(const Profile& profile,
                                                  const Plan& plan, int most);

// What the plan does to each value, by its index. `plan` must be one of the
// profile.
std::vector<Fate> FatesOf(const Profile& profile, const Plan& plan);

// "aten::gelu (op 12)": a value by the op that makes it.
std::string ValueName(const Profile& profile, int value);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_DECISION_H_
