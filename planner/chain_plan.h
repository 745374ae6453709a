// Plans for chains: actions in execution order, as `ebbtide plan` writes them.
//
// Only one form of a stage's output is on the device at a time: x[i] alone or
// in xb[i]. The order of a plan is canonical, so that a plan with an action
// dropped or moved is refused rather than tolerated:
// - what a forward makes is read by the next compute action (forward, loss or
//   backward);
// - a free comes directly after the last action that reads the value, frees of
//   one place in order of stage, x before xb;
// - x[0] may move but is never freed, all else is gone at the end but y[0].
// A value may be read after its offload, until it is restored: its bytes leave
// when the copy has ended and the last such reader is done.
//
// A plan for a chain with weights is carried out step after step:
// - forward and backward of a stage read its weights; each backward adds to the
//   gradient, which the first one makes; the last backward of a weight updates
//   it, and its state;
// - a weight or a state is on the device or on the host, where the step before
//   has left it; it may be offloaded and read as a value may, and freed while
//   the host has what was written last;
// - a gradient is freed when it is read no more, or offloaded for an update of
//   the weight on the host: then the weight is freed before the update, and
//   restored behind it, and the state never comes;
// - nothing is written between its offload and its restore.
#ifndef EBBTIDE_PLANNER_CHAIN_PLAN_H_
#define EBBTIDE_PLANNER_CHAIN_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/chain.h"
#include "planner/curve.h"
#include "planner/units.h"

namespace ebbtide {

struct ChainAction {
  enum class Do {
    kForward,
    kLoss,
    kBackward,
    kFree,
    kOffload,
    kRestore,
    kUpdate
  };
  // x[stage] or xb[stage]; of weight `stage`: itself, its gradient, its state.
  enum class Item { kX, kXb, kWeight, kGrad, kState };

  Do what = Do::kForward;
  int stage = 0;  // 0 for the loss; of an update on the host: the weight
  // Forward: 0 keeps the output x[stage+1] only, 1 the saved set xb[stage+1],
  // k > 1 that of the stage's option k - 2.
  int save = 0;
  Item item = Item::kX;  // free, offload, restore

  friend bool operator==(const ChainAction&, const ChainAction&) = default;
};

struct ChainPlan {
  std::string solver;
  Bytes budget{};
  bool feasible = false;
  Time time = 0;              // the simulator's
  Bytes peak{};               // the simulator's
  Time lower_bound_time = 0;  // no plan is faster
  // Least budget this solver has a plan for; pofo: up to a thousandth.
  Bytes least_budget{};
  // Upper bound on the loss from rounding sizes to slots: no plan of the
  // solver's kind is faster than time / (1 + rounding_loss). 0 if nothing was
  // rounded. For pofo: none that its search finds.
  double rounding_loss = 0;
  // joint: what a search expects of the values alone, with the whole budget for
  // them; 0 for others.
  Time values_bound_time = 0;
  // Estimate of POFO's search if bytes leave and come while they are copied, as
  // in its paper; 0 if it was not requested.
  Time continuous_time = 0;
  double plan_seconds = 0;
  std::vector<ChainAction> actions;
};

// The solver's best plan within `budget`; feasible is false where there is
// none. Solvers: those of planner/chain_table.h, pofo (planner/pofo.h),
// minpeak and minpeak-cubic (planner/min_peak.h), keep, auto; for a chain with
// weights those of planner/weight_plan.h. Every plan has passed its simulator
// and ValidateChainPlan. Errors: an invalid chain, an unknown solver, a chain
// too long for it, weights that it does not plan.
absl::StatusOr<ChainPlan> MakeChainPlan(const Chain& chain, Bytes budget,
                                        absl::string_view solver,
                                        int threads = 1);

// Sets continuous_time of a plan of pofo. InvalidArgument for other solvers.
absl::Status AddContinuousTime(const Chain& chain, int threads,
                               ChainPlan* plan);

// All budgets at once, from the least feasible one to the one that keeps all.
absl::StatusOr<std::vector<CurvePoint>> MakeChainCurve(const Chain& chain,
                                                       absl::string_view solver,
                                                       int threads = 1);

// Text form. Reading needs feasible, time, peak and actions; without a budget
// the plan is held to its own peak.
std::string ChainPlanToJson(const ChainPlan& plan);
absl::StatusOr<ChainPlan> ChainPlanFromJson(absl::string_view text,
                                            absl::string_view origin);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_PLAN_H_
