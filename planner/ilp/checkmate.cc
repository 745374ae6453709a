#include "planner/ilp/checkmate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "planner/finish.h"
#include "planner/guarded.h"
#include "planner/ilp/mip.h"
#include "planner/ilp/model.h"
#include "planner/ilp/schedule.h"
#include "planner/simulate.h"

namespace ebbtide {
namespace {

// Bounds come out of floating point; what they may be off by, of all times.
constexpr double kBoundSlack = 1e-6;

Time ForwardTime(const Graph& graph) {
  Time sum = 0;
  for (Time time : graph.time) sum += time;
  return sum;
}

absl::Status Finish(const Profile& profile, std::vector<Action> actions,
                    Plan* plan) {
  const auto simulation = FinishPlan(profile, std::move(actions), plan);
  if (!simulation.ok()) return simulation.status();
  if (plan->peak < plan->least_budget) {
    plan->least_budget = plan->peak;
    plan->floor_witness = InstantName(profile, simulation->peak_instant);
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> SolveOrThrow(const Profile& profile,
                                  const PlanOptions& options) {
  // Our own plan takes a part of the time; as a cutoff it pays that back.
  constexpr double kCutoffShare = 0.2;
  constexpr absl::Duration kCutoffMost = absl::Seconds(5);
  const absl::Time start = absl::Now();
  if (auto s = CheckProfile(profile); !s.ok()) return s;
  const absl::StatusOr<Graph> graph =
      CompileGraph(profile, options.allow_recompute);
  if (!graph.ok()) return graph.status();
  IlpOptions ilp;
  ilp.offload = options.allow_offload && profile.d2h > 0 && profile.h2d > 0;
  if (auto s = CheckSize(*graph, ilp.passes, ilp.offload); !s.ok()) return s;
  PlanOptions ours = options;
  ours.solver = "auto";
  ours.allow_offload = ilp.offload;
  ours.time_limit = std::min(options.time_limit * kCutoffShare, kCutoffMost);
  absl::StatusOr<Plan> plan = MakePlan(profile, ours);
  if (!plan.ok()) return plan;
  plan->solver = "checkmate";
  const Time base = BaseTime(profile);
  ilp.budget = Count(options.budget);
  if (plan->feasible) ilp.cutoff = plan->time - base;
  ilp.time_limit = options.time_limit - (absl::Now() - start);
  absl::StatusOr<IlpResult> result = SolveIlp(*graph, ilp);
  if (!result.ok()) return result.status();
  if (result->found) {
    if (auto s = Finish(profile, std::move(result->actions), &*plan); !s.ok()) {
      return s;
    }
  }
  if (plan->feasible) {
    plan->lower_bound_time =
        result->proven ? plan->time
                       : std::max(plan->lower_bound_time, base + result->bound);
  }
  plan->plan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return plan;
}

// With copies the program admits more than the simulator (planner/ilp/model.h).
void Judge(const Graph& graph, const IlpOptions& options, Time slack,
           IlpResult* result) {
  const auto simulation =
      Simulate(*graph.profile, result->actions, Bytes{options.budget});
  const Time overhead =
      simulation.ok() ? simulation->time - BaseTime(*graph.profile) : kInfinity;
  result->found = overhead < options.cutoff;
  result->proven = result->proven && overhead <= result->bound + 2 * slack;
  if (!result->found) result->actions.clear();
}

}  // namespace

absl::StatusOr<IlpResult> SolveIlp(const Graph& graph,
                                   const IlpOptions& options) {
  const absl::Time start = absl::Now();
  if (auto s = CheckSize(graph, options.passes, options.offload); !s.ok()) {
    return s;
  }
  const Model model =
      BuildModel(graph, options.budget, options.passes, options.offload);
  IlpResult result;
  result.bound = options.cutoff;
  result.proven = true;
  if (model.impossible) return result;
  MipOptions mip;
  mip.time_limit = options.time_limit - (absl::Now() - start);
  mip.cutoff = options.cutoff / model.time_unit;
  mip.interior = !model.delay.empty();
  const auto solved = SolveMip(model.mip, mip);
  if (!solved.ok()) return solved.status();
  if (solved->status == MipResult::Status::kNone) return result;
  result.proven = solved->status == MipResult::Status::kOptimal;
  const Time slack = kBoundSlack * ForwardTime(graph);
  result.bound =
      std::clamp(solved->bound * model.time_unit - slack, 0.0, options.cutoff);
  if (!solved->found) return result;
  result.found = true;
  const Schedule schedule = Decode(model, solved->values);
  result.actions = ActionsOf(graph, options.budget, schedule);
  if (!schedule.moves.empty()) Judge(graph, options, slack, &result);
  return result;
}

absl::StatusOr<Plan> SolveCheckmate(const Profile& profile,
                                    const PlanOptions& options) {
  return Guarded(SolveOrThrow, profile, options);
}

}  // namespace ebbtide
