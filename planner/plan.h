// A plan: the values to keep, offload and recompute, and when, as a list of
// actions in execution order, with the simulator's results.
#ifndef EBBTIDE_PLANNER_PLAN_H_
#define EBBTIDE_PLANNER_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planner/curve.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

// Actions of a graph plan (plans for chains: planner/chain_plan.h).
struct Action {
  enum class Do {
    kForward,    // run forward op `index`
    kBackward,   // run stage `index`; every value it needs is resident
    kRecompute,  // run forward op `index` again; all its outputs become
                 // resident
    kFree,       // value `index` leaves the device
    kOffload,    // copy of value `index` to the host starts; its bytes leave
                 // the device when the copy ends
    kRestore,    // copy of value `index` back starts; its bytes are taken now
  };
  Do what = Do::kForward;
  int index = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

// Order: every forward op once, then every stage once, both in the profile's
// order; recomputes and restores only after the last forward op; frees and
// offloads only after the value's `released`. A value is out of reach from the
// start of its offload to the end of its restore; its op is not recomputed
// while it is on the host. A value that the script holds past the last stage
// (released = ops + stages) stays; all else is gone at the end.
//
// Everything that leaves the device leaves by an action, also values that
// autograd releases by itself after their last stage.
struct Plan {
  std::string solver;
  Bytes budget{};
  bool feasible = false;
  Time time = 0;  // the simulator's
  Bytes peak{};   // the simulator's
  // No plan within the budget is faster; of checkmate: no plan of its kind
  // (planner/ilp/checkmate.h). 0 where no bounds were asked for.
  Time lower_bound_time = 0;
  // The instants that prove it and what fills them; empty: none needed.
  std::string bound_witness;
  Bytes least_budget{};       // least peak of this solver's known plans
  std::string floor_witness;  // the instant that needs it, as in FloorResult
  double plan_seconds = 0;
  std::vector<Action> actions;
};

// True if any of the plan's actions is of that kind.
bool Contains(const Plan& plan, Action::Do what);

struct PlanOptions {
  Bytes budget{};
  std::string solver = "auto";
  absl::Duration time_limit = absl::Seconds(5);
  uint64_t seed = 1;
  // Evaluations of the search; 0: as many as the time limit allows. With a
  // number the plan is the same on every machine, as long as the time limit
  // does not end the search first.
  int64_t evaluations = 0;
  bool allow_offload = true;
  bool allow_recompute = true;
  // Takes part of the time for Plan::lower_bound_time, which is 0 without.
  bool bounds = true;
};

// The best plan found within the time limit; feasible is false where no plan
// was found (least_budget then says what would do). Solvers "rockmate" and the
// like cut the graph into a chain (planner/block_chain.h); "demand" and "dtr"
// plan what evicting on demand would do (planner/demand.h), without offloads.
// "random" is for tests: any plan at all, whose budget is what it takes
// (planner/random_plan.h). Errors: an invalid profile, an unknown solver.
// Thread-safe; never touches torch.
absl::StatusOr<Plan> MakePlan(const Profile& profile,
                              const PlanOptions& options);

// The least peak that a plan is known for within the time limit, and what makes
// it: the instant of that plan that needs most, "op 12 aten::mm" or "stage 3
// MmBackward0".
struct FloorResult {
  Bytes bytes{};
  int instant = 0;  // as in planner/profile.h; ops + stages: the tail
  std::string name;
};
absl::StatusOr<FloorResult> Floor(const Profile& profile,
                                  const PlanOptions& options);

// Plans for a range of budgets from the floor to the one that keeps all, within
// the time limit together; options.budget is not looked at.
absl::StatusOr<std::vector<CurvePoint>> MakeCurve(const Profile& profile,
                                                  const PlanOptions& options);

// Text form: {"kind":"plan","version":1,...}; reads what it writes, bit for
// bit. Actions are {"do":"forward"|"recompute","op":i}, {"do":"backward",
// "stage":t} and {"do":"free"|"offload"|"restore","value":v}. Indices are
// checked against a profile by Validate, not here.
std::string PlanToJson(const Plan& plan);
absl::StatusOr<Plan> PlanFromJson(absl::string_view text,
                                  absl::string_view origin);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLAN_H_
