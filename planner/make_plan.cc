// MakePlan, MakeCurve and Floor: dispatch, and the checks that every returned
// plan has passed.
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "planner/block_solver.h"
#include "planner/demand.h"
#include "planner/evaluator.h"
#include "planner/finish.h"
#include "planner/graph_plan.h"
#include "planner/guarded.h"
#include "planner/hierarchical.h"
#include "planner/instant.h"
#include "planner/lanes.h"
#include "planner/outlook.h"
#include "planner/plan.h"
#include "planner/random_plan.h"
#include "planner/simulate.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr Bytes kNoBudget{int64_t{1} << 60};

bool IsDemand(absl::string_view solver) {
  return solver == "demand" || solver == "dtr";
}

absl::Status CheckOptions(const Profile& profile, const PlanOptions& options) {
  if (auto s = CheckProfile(profile); !s.ok()) return s;
  const std::string& solver = options.solver;
  if (solver == "auto" || solver == "graph" || solver == "keep" ||
      solver == "hierarchical" || solver == "random" || IsDemand(solver) ||
      ParseBlockSolver(solver).has_value()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "solver: expected auto, graph, hierarchical, rotor, floating, unpinned, "
      "unpinned-floating, rockmate, rockmate-unpinned, demand, dtr or keep for "
      "a profile (or checkmate, in `ebbtide plan` only), got ",
      solver));
}

GraphPlanOptions GraphOptions(const Profile& profile,
                              const PlanOptions& options, absl::Time start) {
  GraphPlanOptions graph_options;
  graph_options.budget = Count(options.budget);
  graph_options.offload = options.allow_offload && options.solver != "keep" &&
                          profile.d2h > 0 && profile.h2d > 0;
  graph_options.rebuild = options.allow_recompute;
  graph_options.bounds = options.bounds;
  graph_options.seed = options.seed;
  graph_options.evaluations = options.evaluations;
  graph_options.deadline = start + options.time_limit;
  return graph_options;
}

// The actions of a draft, restores where the lanes want them.
std::vector<Action> ActionsOf(const Graph& graph, const Draft& draft,
                              int64_t budget) {
  Evaluator evaluator(graph);
  Evaluation result;
  evaluator.Evaluate(draft, &result);
  Lanes lanes(graph, budget);
  lanes.Stall(TrafficOf(result));
  return evaluator.Actions(draft, lanes.restore_before(), &result);
}

absl::StatusOr<Simulation> Finish(const Graph& graph, const Draft& draft,
                                  Plan* plan) {
  return FinishPlan(*graph.profile,
                    ActionsOf(graph, draft, Count(plan->budget)), plan);
}

// The instant that needs most under a draft.
std::string Witness(const Graph& graph, const Draft& draft) {
  Evaluator evaluator(graph);
  Evaluation result;
  evaluator.Evaluate(draft, &result);
  int instant = graph.ops + graph.stages;
  for (int t = graph.stages - 1; t >= 0; --t) {
    if (result.stage_peak[t] == result.peak) instant = graph.ops + t;
  }
  for (int i = graph.ops - 1; i >= 0; --i) {
    if (result.forward_peak[i] == result.peak) instant = i;
  }
  return InstantName(*graph.profile, instant);
}

// An instant of a bound, and what fills it: "stage 6 b' (1.25 GiB there in any
// plan)", "op 5 c again before stage 2 b' (...)".
std::string Describe(const Graph& graph, int instant) {
  const Profile& profile = *graph.profile;
  const auto with = [](const std::string& name, const Instant& at) {
    return absl::StrCat(name, " (", FormatSize(Bytes{at.fixed}),
                        " there in any plan)");
  };
  if (!IsRerun(graph, instant)) {
    return with(InstantName(profile, instant),
                AtInstant(graph, instant, graph.stages - 1));
  }
  const Rerun rerun = AsRerun(graph, instant);
  return with(absl::StrCat(InstantName(profile, rerun.op), " again before ",
                           InstantName(profile, graph.ops + rerun.stage)),
              AtRerun(graph, rerun.op, rerun.stage, rerun.stage));
}

std::string BoundWitness(const Graph& graph, const GraphPlan& solved) {
  std::string text;
  for (int instant : solved.bound_instants) {
    absl::StrAppend(&text, text.empty() ? "" : " and ",
                    Describe(graph, instant));
  }
  return text;
}

// Plans of the graph planner, and a look at the floor in the time that is
// left.
absl::Status Solve(const Graph& graph, const PlanOptions& options,
                   absl::Time start, Plan* plan) {
  constexpr double kSolve = 0.88;
  constexpr double kFloor = 0.97;
  GraphPlanOptions graph_options = GraphOptions(*graph.profile, options, start);
  graph_options.deadline = start + options.time_limit * kSolve;
  const GraphPlan solved = SolveGraph(graph, graph_options);
  graph_options.deadline = std::min(
      start + options.time_limit * kFloor,
      absl::Now() + options.time_limit * (solved.feasible ? 0.1 : 1.0));
  int64_t least = 0;
  Draft floor = SolveFloor(graph, graph_options, &least);
  if (solved.least_peak < least) {
    least = solved.least_peak;
    floor = solved.least;
  }
  plan->least_budget = Bytes{least};
  plan->floor_witness = Witness(graph, floor);
  plan->lower_bound_time += solved.bound;
  plan->bound_witness = BoundWitness(graph, solved);
  if (solved.feasible) return Finish(graph, solved.draft, plan).status();
  if (least > Count(options.budget)) return absl::OkStatus();
  return Finish(graph, floor, plan).status();
}

// A plan of a solver whose floor is the least that it has seen.
absl::Status Take(const Graph& graph, const GraphPlan& solved, Plan* plan) {
  plan->least_budget = Bytes{solved.least_peak};
  plan->floor_witness = Witness(graph, solved.least);
  plan->lower_bound_time += solved.bound;
  plan->bound_witness = BoundWitness(graph, solved);
  if (!solved.feasible) return absl::OkStatus();
  return Finish(graph, solved.draft, plan).status();
}

absl::Status Keep(const Graph& graph, Plan* plan) {
  Evaluator evaluator(graph);
  Evaluation result;
  const Draft draft = KeepAll(graph, false);
  evaluator.Evaluate(draft, &result);
  plan->least_budget = Bytes{result.peak};
  plan->floor_witness = Witness(graph, draft);
  if (result.broken || plan->least_budget > plan->budget) {
    return absl::OkStatus();
  }
  return Finish(graph, draft, plan).status();
}

// A plan whatever it takes: its own peak is its budget.
absl::Status Scatter(const Graph& graph, const PlanOptions& options,
                     Plan* plan) {
  std::vector<Action> actions =
      RandomActions(graph, options.seed, options.allow_offload);
  const auto free = Simulate(*graph.profile, actions, kNoBudget);
  if (!free.ok()) return free.status();
  plan->budget = plan->least_budget = free->peak;
  plan->floor_witness = InstantName(*graph.profile, free->peak_instant);
  return FinishPlan(*graph.profile, std::move(actions), plan).status();
}

// Plans by evicting on demand. This solver has no least budget: if it fails its
// own peak is reported.
absl::Status Evict(const Graph& graph, Plan* plan) {
  const auto order =
      plan->solver == "dtr" ? DemandOrder::kDtr : DemandOrder::kNextUse;
  std::vector<Action> actions =
      DemandActions(graph, Count(plan->budget), order);
  const auto free = Simulate(*graph.profile, actions, kNoBudget);
  if (!free.ok()) return free.status();
  plan->least_budget = free->peak;
  plan->floor_witness = InstantName(*graph.profile, free->peak_instant);
  if (free->peak > plan->budget) return absl::OkStatus();
  return FinishPlan(*graph.profile, std::move(actions), plan).status();
}

absl::StatusOr<Plan> MakePlanOrThrow(const Profile& profile,
                                     const PlanOptions& options) {
  if (auto s = CheckOptions(profile, options); !s.ok()) return s;
  if (options.budget <= Bytes{}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "budget: expected more than 0, got ", Count(options.budget)));
  }
  const absl::Time start = absl::Now();
  const absl::StatusOr<Graph> graph =
      CompileGraph(profile, options.allow_recompute);
  if (!graph.ok()) return graph.status();
  Plan plan;
  plan.solver = options.solver == "auto" ? "graph" : options.solver;
  plan.budget = options.budget;
  plan.lower_bound_time = BaseTime(profile);
  absl::Status status;
  if (plan.solver == "keep") {
    status = Keep(*graph, &plan);
  } else if (plan.solver == "hierarchical") {
    status =
        Take(*graph,
             SolveHierarchical(*graph, GraphOptions(profile, options, start)),
             &plan);
  } else if (const auto blocks = ParseBlockSolver(plan.solver)) {
    const auto solved =
        SolveBlockChain(*graph, GraphOptions(profile, options, start), *blocks);
    status = solved.ok() ? Take(*graph, *solved, &plan) : solved.status();
  } else if (IsDemand(plan.solver)) {
    status = Evict(*graph, &plan);
  } else if (plan.solver == "random") {
    status = Scatter(*graph, options, &plan);
  } else {
    status = Solve(*graph, options, start, &plan);
  }
  if (!status.ok()) return status;
  if (!options.bounds) {
    plan.lower_bound_time = 0;
    plan.bound_witness.clear();
  }
  plan.plan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return plan;
}

absl::StatusOr<FloorResult> FloorOrThrow(const Profile& profile,
                                         const PlanOptions& options) {
  if (auto s = CheckOptions(profile, options); !s.ok()) return s;
  const absl::StatusOr<Graph> graph =
      CompileGraph(profile, options.allow_recompute);
  if (!graph.ok()) return graph.status();
  FloorResult floor;
  int64_t peak = 0;
  const Draft draft =
      SolveFloor(*graph, GraphOptions(profile, options, absl::Now()), &peak);
  Plan plan;
  plan.solver = "floor";
  plan.budget = Bytes{peak};
  const auto simulation = Finish(*graph, draft, &plan);
  if (!simulation.ok()) return simulation.status();
  floor.bytes = simulation->peak;
  floor.instant = simulation->peak_instant;
  floor.name = InstantName(profile, floor.instant);
  return floor;
}

constexpr int kCurvePoints = 12;

// The next point of a curve from large budgets to small ones. A plan for less
// may be the better one for more.
void AddPoint(const CurvePoint& point, std::vector<CurvePoint>* curve) {
  while (!curve->empty() && curve->back().time >= point.time) curve->pop_back();
  curve->push_back(point);
}

// In equal steps, the largest first.
std::vector<int64_t> EqualSteps(int64_t low, int64_t most) {
  std::vector<int64_t> budgets = {most};
  for (int k = kCurvePoints - 2; k >= 0; --k) {
    budgets.push_back(low + (most - low) / (kCurvePoints - 1) * k);
  }
  return budgets;
}

// Budgets from the largest to the least, each beginning with the plans of the
// one before and of the floor. `budgets`: empty for equal steps.
absl::StatusOr<std::vector<CurvePoint>> GraphCurve(
    const Profile& profile, const PlanOptions& options, int64_t most,
    std::vector<int64_t> budgets = {}) {
  const size_t points = budgets.empty() ? kCurvePoints : budgets.size();
  const absl::Duration share = options.time_limit / (points + 1);
  const absl::StatusOr<Graph> graph =
      CompileGraph(profile, options.allow_recompute);
  if (!graph.ok()) return graph.status();
  GraphPlanOptions solve = GraphOptions(profile, options, absl::Now());
  solve.deadline = absl::Now() + share;
  int64_t least = 0;
  std::vector<Draft> starts = {SolveFloor(*graph, solve, &least)};
  if (budgets.empty()) budgets = EqualSteps(std::min(most, least), most);
  std::vector<CurvePoint> curve;
  for (const int64_t budget : budgets) {
    solve.budget = budget;
    solve.starts = starts;
    solve.deadline = absl::Now() + share;
    GraphPlan solved = SolveGraph(*graph, solve);
    if (!solved.feasible) continue;
    Plan plan;
    plan.budget = Bytes{solve.budget};
    const auto finished = Finish(*graph, solved.draft, &plan);
    if (!finished.ok()) return finished.status();
    AddPoint({plan.budget, plan.time}, &curve);
    starts.resize(1, starts.front());
    starts.push_back(std::move(solved.draft));
  }
  std::reverse(curve.begin(), curve.end());
  return curve;
}

absl::StatusOr<std::vector<CurvePoint>> MakeCurveOrThrow(
    const Profile& profile, const PlanOptions& options) {
  if (auto s = CheckOptions(profile, options); !s.ok()) return s;
  const int64_t most = std::max<int64_t>(Count(UnmanagedPeak(profile)), 1);
  if (options.solver == "auto" || options.solver == "graph") {
    return GraphCurve(profile, options, most);
  }
  PlanOptions part = options;
  part.time_limit = options.time_limit / kCurvePoints;
  part.budget = Bytes{most};
  std::vector<CurvePoint> curve;
  for (int k = kCurvePoints; k > 0; --k) {
    const absl::StatusOr<Plan> plan = MakePlanOrThrow(profile, part);
    if (!plan.ok()) return plan.status();
    if (!plan->feasible) break;
    AddPoint({part.budget, plan->time}, &curve);
    // Down to the least budget that the solver has a plan for, in equal steps.
    const int64_t step =
        (Count(part.budget) - Count(plan->least_budget)) / std::max(1, k - 1);
    if (step <= 0) break;
    part.budget = Bytes{Count(part.budget) - step};
  }
  std::reverse(curve.begin(), curve.end());
  return curve;
}

absl::StatusOr<std::vector<CurvePoint>> CurveForOrThrow(
    const Profile& profile, const PlanOptions& options,
    const std::vector<Bytes>& budgets) {
  if (auto s = CheckOptions(profile, options); !s.ok()) return s;
  std::vector<int64_t> sizes;
  for (const Bytes budget : budgets) sizes.push_back(Count(budget));
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  if (sizes.empty()) return std::vector<CurvePoint>();
  return GraphCurve(profile, options, sizes.front(), sizes);
}

}  // namespace

bool Contains(const Plan& plan, Action::Do what) {
  return std::any_of(
      plan.actions.begin(), plan.actions.end(),
      [what](const Action& action) { return action.what == what; });
}

absl::StatusOr<Plan> MakePlan(const Profile& profile,
                              const PlanOptions& options) {
  return Guarded(MakePlanOrThrow, profile, options);
}

absl::StatusOr<FloorResult> Floor(const Profile& profile,
                                  const PlanOptions& options) {
  return Guarded(FloorOrThrow, profile, options);
}

absl::StatusOr<std::vector<CurvePoint>> MakeCurve(const Profile& profile,
                                                  const PlanOptions& options) {
  return Guarded(MakeCurveOrThrow, profile, options);
}

absl::StatusOr<std::vector<CurvePoint>> MakeCurveFor(
    const Profile& profile, const PlanOptions& options,
    const std::vector<Bytes>& budgets) {
  return Guarded(CurveForOrThrow, profile, options, budgets);
}

}  // namespace ebbtide
