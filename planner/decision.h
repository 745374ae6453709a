// Explains a plan's decision about each value by its facts: the times of its
// recipe and of its copies, and the rules that exclude either.
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
  int blocker = -1;  // an op that cannot be recomputed
  int reruns = 0;    // that the plan makes of the value's own op

  // Time of each copy of its bytes, and the time by which the plan's last
  // action would end sooner without them, by the simulator and with no budget.
  // 0 if the profile has no lane.
  Time out = 0;
  Time back = 0;
  Time waits = 0;
  // The script releases it only after its last use: nothing could be gained.
  bool is_held = false;

  // All that in a sentence without an end.
  std::string reason;
};

// Explains the decisions about the `most` largest saved values, the largest
// first, those of equal size in their order. Errors: the plan is not one of the
// profile.
absl::StatusOr<std::vector<Decision>> ExplainPlan(const Profile& profile,
                                                  const Plan& plan, int most);

// The fate of each value under the plan, by its index. `plan` must be one of
// the profile.
std::vector<Fate> FatesOf(const Profile& profile, const Plan& plan);

// "aten::gelu (op 12)": a value by the op that makes it.
std::string ValueName(const Profile& profile, int value);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_DECISION_H_
