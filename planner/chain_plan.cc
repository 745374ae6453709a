#include "planner/chain_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "planner/chain_actions.h"
#include "planner/chain_simulate.h"
#include "planner/chain_slots.h"
#include "planner/chain_table.h"
#include "planner/chain_validate.h"
#include "planner/min_peak.h"
#include "planner/pofo.h"
#include "planner/weight_plan.h"

namespace ebbtide {
namespace {

// Accepted loss from rounding sizes to slots, if a finer table is not too
// large.
constexpr double kMostLoss = 0.001;
constexpr int kMostCubic = 1000;
constexpr ChainSolver kUnpinned = {.unpinned = true};

// The plans of solvers that make one, whatever the budget is.
std::optional<ChainActions> OnlyPlan(const Chain& chain,
                                     absl::string_view solver) {
  if (solver == "keep") return AddFrees(Stages(chain), KeepAll(Stages(chain)));
  if (solver == "minpeak") {
    return CheckpointPlan(chain, MinPeak(LayerSizes(chain)).checkpoints);
  }
  if (solver == "minpeak-cubic") {
    return CheckpointPlan(chain, MinPeakHeld(LayerSizes(chain)).checkpoints);
  }
  return std::nullopt;
}

// The solver that `name` stands for.
absl::StatusOr<absl::string_view> SolverFor(const Chain& chain,
                                            absl::string_view name) {
  if (auto s = CheckChain(chain); !s.ok()) return s;
  if (!chain.weights.empty()) {
    if (name == "auto") return "joint";
    if (IsWeightSolver(name)) return name;
    return absl::InvalidArgumentError(absl::StrCat(
        "weights: expected none, or solver auto, joint, weights, greedy or "
        "greedy-star, got ",
        name));
  }
  if (name == "keep" || name == "minpeak") return name;
  if (name == "minpeak-cubic") {
    if (Stages(chain) <= kMostCubic) return name;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " plans chains of at most ", kMostCubic,
                     " stages, this one has ", Stages(chain)));
  }
  if (name == "auto" && HasLanes(chain)) name = "pofo";
  if (name == "auto") {
    // The better kind as long as it takes no longer than the other may.
    const TableWork work =
        WorkOf(chain, *ParseChainSolver("unpinned-floating"));
    name = work.terms * kFewestSlots < 2e9 ? "unpinned-floating" : "unpinned";
  }
  const auto solver =
      name == "pofo" ? std::optional(kUnpinned) : ParseChainSolver(name);
  if (!solver.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "solver: expected auto, rotor, floating, unpinned, unpinned-floating, "
        "pofo, minpeak, minpeak-cubic or keep for a chain, got ",
        name));
  }
  if (auto s = CheckTableSize(chain, *solver); !s.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", s.message()));
  }
  return name;
}

struct Solved {
  ChainActions actions;
  double rounding_loss = 0;
};

// An upper bound on the loss from rounding: sizes rounded down have the time
// that no plan of its kind beats.
double LossOf(Time time, Bytes budget, const ChainTable& down) {
  const auto bound = down.TimeAt(budget);
  if (!bound.has_value() || *bound <= 0) return 0;
  return std::max(0.0, time / *bound - 1);
}

void AddLosses(const Chain& chain, ChainSolver solver, int threads,
               std::vector<CurvePoint>* curve) {
  const auto down = MakeChainTable(
      UsualSlotChain(chain, solver, Rounding::kDown), solver, threads);
  for (CurvePoint& point : *curve) {
    point.rounding_loss = LossOf(point.time, point.budget, *down);
  }
}

absl::StatusOr<double> LossOf(const Chain& chain, const ChainActions& actions,
                              ChainSolver solver, Bytes budget, int64_t limit,
                              int threads) {
  const auto simulation = SimulateChain(chain, actions, budget);
  if (!simulation.ok()) return simulation.status();
  const SlotChain down = CountSlots(chain, budget, limit, Rounding::kDown);
  return LossOf(simulation->time, budget,
                *MakeChainTable(down, solver, threads));
}

absl::StatusOr<Solved> SolveTable(const Chain& chain, ChainSolver solver,
                                  Bytes budget, int threads) {
  const Bytes most = std::min(budget, EnoughFor(chain));
  const TableWork work = WorkOf(chain, solver);
  int64_t limit = UsualSlots(work);
  while (true) {
    SlotChain up = CountSlots(chain, most, limit, Rounding::kUp);
    const bool exact = IsExact(chain, up);
    Solved solved;
    solved.actions =
        MakeChainTable(std::move(up), solver, threads)->PlanAt(most);
    // Near the least budget the rounding to slots may hide the only plans.
    if (solved.actions.empty()) solved.actions = LeastChainPlan(chain, solver);
    if (exact) return solved;
    const auto loss =
        LossOf(chain, solved.actions, solver, most, limit, threads);
    if (!loss.ok()) return loss.status();
    solved.rounding_loss = *loss;
    const int64_t finer = std::min(4 * limit, FineSlots(work));
    if (solved.rounding_loss <= kMostLoss || finer <= limit) return solved;
    limit = finer;
  }
}

absl::StatusOr<Bytes> LeastBudget(const Chain& chain, absl::string_view solver,
                                  const std::optional<ChainActions>& only) {
  if (!only.has_value()) {
    return LeastChainBudget(chain, *ParseChainSolver(solver));
  }
  const auto simulation = SimulateChain(chain, *only, EnoughFor(chain));
  if (!simulation.ok()) return simulation.status();
  return simulation->peak;
}

// Plans of pofo and their loss from rounding: the time beyond the estimate for
// sizes rounded down.
class PofoPlans {
 public:
  PofoPlans(const Chain& chain, int threads)
      : up_(chain, SlotsFor(chain), Rounding::kUp, threads) {
    if (up_.IsExact()) return;
    down_.emplace(chain, SlotsFor(chain), Rounding::kDown, threads);
  }

  // No actions where there is no plan.
  Solved Solve(Bytes budget, Time* time) const {
    PofoSolution solution = up_.Solve(budget);
    *time = solution.time;
    Solved solved{std::move(solution.actions)};
    if (down_.has_value() && !solved.actions.empty()) {
      solved.rounding_loss = std::max(0.0, *time / down_->Estimate(budget) - 1);
    }
    return solved;
  }
  Time Continuous(Bytes budget) const {
    return up_.Estimate(budget, /*continuous=*/true);
  }
  // At most `feasible`.
  Bytes LeastBudget(Bytes feasible) const { return up_.LeastBudget(feasible); }

 private:
  static int64_t SlotsFor(const Chain& chain) {
    return std::max(kFewestSlots, UsualSlots(WorkOf(chain, kUnpinned)) / 4);
  }

  const Pofo up_;
  std::optional<Pofo> down_;  // where sizes are rounded
};

void PlanMoves(const Chain& chain, int threads, ChainPlan* plan) {
  const PofoPlans plans(chain, threads);
  Solved solved = plans.Solve(plan->budget, &plan->time);
  plan->feasible = !solved.actions.empty();
  plan->actions = std::move(solved.actions);
  plan->rounding_loss = solved.rounding_loss;
  plan->least_budget = plans.LeastBudget(
      plan->feasible ? plan->budget : LeastChainBudget(chain, kUnpinned));
}

// At budgets in equal steps, where there is no table of all of them. `solve`
// sets the point's time and loss, and is false where there is no plan.
template <class Solve>
std::vector<CurvePoint> CurveInSteps(Bytes least, Bytes most,
                                     const Solve& solve) {
  constexpr int kSteps = 24;
  const double step = static_cast<double>(Count(most - least)) / kSteps;
  std::vector<CurvePoint> curve;
  for (int k = 0; k <= kSteps; ++k) {
    CurvePoint point{.budget = least + Bytes{std::llround(step * k)}};
    if (!solve(&point)) continue;
    if (curve.empty() || point.time < curve.back().time) curve.push_back(point);
  }
  return curve;
}

std::vector<CurvePoint> CurveOfMoves(const Chain& chain, int threads) {
  const PofoPlans plans(chain, threads);
  const Bytes least = plans.LeastBudget(LeastChainBudget(chain, kUnpinned));
  return CurveInSteps(least, EnoughFor(chain), [&](CurvePoint* point) {
    const Solved solved = plans.Solve(point->budget, &point->time);
    point->rounding_loss = solved.rounding_loss;
    return !solved.actions.empty();
  });
}

absl::StatusOr<std::vector<CurvePoint>> CurveOfWeights(const Chain& chain,
                                                       absl::string_view solver,
                                                       int threads) {
  constexpr Bytes kMost{std::numeric_limits<int64_t>::max() / 4};
  const auto all = MakeWeightPlan(chain, kMost, solver, threads);
  if (!all.ok()) return all.status();
  absl::Status status;
  auto curve =
      CurveInSteps(all->least_budget, all->peak, [&](CurvePoint* point) {
        const auto plan = MakeWeightPlan(chain, point->budget, solver, threads);
        if (!plan.ok()) status = plan.status();
        if (!plan.ok() || !plan->feasible) return false;
        point->time = plan->time;
        return true;
      });
  if (!status.ok()) return status;
  return curve;
}

// The plan of a solver that has one, or tables without back-pointers.
absl::Status PlanWithoutMoves(const Chain& chain, int threads,
                              ChainPlan* plan) {
  std::optional<ChainActions> only = OnlyPlan(chain, plan->solver);
  const absl::StatusOr<Bytes> least = LeastBudget(chain, plan->solver, only);
  if (!least.ok()) return least.status();
  plan->least_budget = *least;
  plan->feasible = plan->budget >= plan->least_budget;
  if (!plan->feasible) return absl::OkStatus();
  if (only.has_value()) {
    plan->actions = *std::move(only);
    return absl::OkStatus();
  }
  auto solved =
      SolveTable(chain, *ParseChainSolver(plan->solver), plan->budget, threads);
  if (!solved.ok()) return solved.status();
  plan->actions = std::move(solved->actions);
  plan->rounding_loss = solved->rounding_loss;
  return absl::OkStatus();
}

// The parts of `plan` that are not its author's to say.
absl::Status Judge(const Chain& chain, ChainPlan* plan) {
  const auto simulation = SimulateChain(chain, plan->actions, plan->budget);
  if (!simulation.ok()) {
    return absl::InternalError(
        absl::StrCat(plan->solver, ": ", simulation.status().message()));
  }
  plan->time = simulation->time;
  plan->peak = simulation->peak;
  const absl::Status valid = ValidateChainPlan(chain, *plan);
  if (valid.ok()) return valid;
  return absl::InternalError(absl::StrCat(plan->solver, ": ", valid.message()));
}

}  // namespace

absl::StatusOr<ChainPlan> MakeChainPlan(const Chain& chain, Bytes budget,
                                        absl::string_view name, int threads) {
  const absl::Time start = absl::Now();
  const auto solver = SolverFor(chain, name);
  if (!solver.ok()) return solver.status();
  if (IsWeightSolver(*solver)) {
    auto plan = MakeWeightPlan(chain, budget, *solver, threads);
    if (plan.ok()) {
      plan->plan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
    }
    return plan;
  }
  ChainPlan plan;
  plan.solver = std::string(*solver);
  plan.budget = budget;
  plan.lower_bound_time = LeastTime(chain);
  if (*solver == "pofo") {
    PlanMoves(chain, threads, &plan);
  } else if (auto s = PlanWithoutMoves(chain, threads, &plan); !s.ok()) {
    return s;
  }
  if (plan.feasible) {
    if (auto s = Judge(chain, &plan); !s.ok()) return s;
  }
  plan.plan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return plan;
}

absl::Status AddContinuousTime(const Chain& chain, int threads,
                               ChainPlan* plan) {
  if (plan->solver != "pofo") {
    return absl::InvalidArgumentError(
        absl::StrCat("continuous: expected solver pofo, got ", plan->solver));
  }
  if (!plan->feasible) return absl::OkStatus();
  plan->continuous_time = PofoPlans(chain, threads).Continuous(plan->budget);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CurvePoint>> MakeChainCurve(const Chain& chain,
                                                       absl::string_view name,
                                                       int threads) {
  const auto solver = SolverFor(chain, name);
  if (!solver.ok()) return solver.status();
  if (IsWeightSolver(*solver)) return CurveOfWeights(chain, *solver, threads);
  if (*solver == "pofo") return CurveOfMoves(chain, threads);
  const std::optional<ChainActions> only = OnlyPlan(chain, *solver);
  const absl::StatusOr<Bytes> least = LeastBudget(chain, *solver, only);
  if (!least.ok()) return least.status();
  const auto kind = ParseChainSolver(*solver);
  const ChainActions actions =
      only.has_value() ? *only : LeastChainPlan(chain, *kind);
  const auto simulation = SimulateChain(chain, actions, *least);
  if (!simulation.ok()) {
    return absl::InternalError(simulation.status().message());
  }
  std::vector<CurvePoint> curve = {{*least, simulation->time}};
  if (!kind.has_value()) return curve;
  SlotChain up = UsualSlotChain(chain, *kind);
  const bool exact = IsExact(chain, up);
  const auto table = MakeChainTable(std::move(up), *kind, threads);
  for (const CurvePoint& point : table->Curve()) {
    if (point.budget < curve.back().budget) continue;
    if (point.budget == curve.back().budget) curve.pop_back();
    if (curve.empty() || point.time < curve.back().time) {
      curve.push_back(point);
    }
  }
  if (!exact) AddLosses(chain, *kind, threads, &curve);
  return curve;
}

}  // namespace ebbtide
