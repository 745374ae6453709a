#include "planner/chain_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "planner/rotor.h"
#include "planner/rotor_actions.h"

namespace ebbtide {
namespace {

ChainActions KeepActions(const Chain& chain) {
  ChainActions actions;
  for (int i = 0; i < Stages(chain); ++i) EmitForward(i, 1, &actions);
  actions.push_back({ChainAction::Do::kLoss});
  for (int i = Stages(chain) - 1; i >= 0; --i) EmitBackward(i, &actions);
  return actions;
}

// A budget that any plan fits into which saves each stage once.
Bytes EnoughFor(const Chain& chain) {
  Bytes enough = chain.x[0];
  Bytes most{};
  for (int i = 0; i < Stages(chain); ++i) {
    Bytes saved{};
    for (const ChainOption& way : SavingWays(chain, i)) {
      saved = std::max(saved, way.xb);
      most = std::max({most, chain.x[i] + way.ft, chain.x[i] + way.bt});
    }
    enough += saved;
    most = std::max(most, chain.x[i + 1] + chain.x[i]);
  }
  return enough + most + most + chain.x.back() + chain.bt.back();
}

// Each stage runs once, in the fastest of its ways; no plan does less.
Time LowerBound(const Chain& chain) {
  Time sum = chain.bw.back();
  for (int i = 0; i < Stages(chain); ++i) {
    Time least = chain.fw[i] + chain.bw[i];
    for (const ChainOption& way : SavingWays(chain, i)) {
      least = std::min(least, way.fw + way.bw);
    }
    sum += least;
  }
  return sum;
}

ChainActions RotorActions(const Chain& chain, Bytes budget) {
  const Bytes most = std::min(budget, EnoughFor(chain));
  const RotorTable table(chain, most);
  ChainActions actions = table.PlanAt(most);
  // Near the least budget the rounding to slots may hide the only plans.
  if (actions.empty()) actions = RotorLeastPlan(chain);
  return actions;
}

absl::Status CheckInput(const Chain& chain, absl::string_view solver) {
  if (auto s = CheckChain(chain); !s.ok()) return s;
  if (!chain.weights.empty()) {
    return absl::InvalidArgumentError(
        "weights: expected none, no chain solver plans them");
  }
  if (solver == "keep") return absl::OkStatus();
  if (solver == "rotor" || solver == "auto") return CheckRotorSize(chain);
  return absl::InvalidArgumentError(absl::StrCat(
      "solver: expected auto, rotor or keep for a chain, got ", solver));
}

absl::StatusOr<Bytes> LeastBudget(const Chain& chain, bool keep) {
  if (!keep) return RotorLeastBudget(chain);
  absl::StatusOr<ChainSimulation> all =
      SimulateChain(chain, KeepActions(chain), EnoughFor(chain));
  if (!all.ok()) return all.status();
  return all->peak;
}

}  // namespace

absl::StatusOr<ChainPlan> MakeChainPlan(const Chain& chain, Bytes budget,
                                        absl::string_view solver) {
  if (auto s = CheckInput(chain, solver); !s.ok()) return s;
  const absl::Time start = absl::Now();
  const bool keep = solver == "keep";
  ChainPlan plan;
  plan.solver = keep ? "keep" : "rotor";
  plan.budget = budget;
  plan.lower_bound_time = LowerBound(chain);
  absl::StatusOr<Bytes> least = LeastBudget(chain, keep);
  if (!least.ok()) return least.status();
  plan.least_budget = *least;
  plan.feasible = budget >= plan.least_budget;
  if (plan.feasible) {
    plan.actions = keep ? KeepActions(chain) : RotorActions(chain, budget);
    const auto simulation = SimulateChain(chain, plan.actions, budget);
    if (!simulation.ok()) {
      return absl::InternalError(
          absl::StrCat(plan.solver, ": ", simulation.status().message()));
    }
    plan.time = simulation->time;
    plan.peak = simulation->peak;
    if (auto s = ValidateChainPlan(chain, plan); !s.ok()) {
      return absl::InternalError(absl::StrCat(plan.solver, ": ", s.message()));
    }
  }
  plan.plan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return plan;
}

absl::StatusOr<std::vector<CurvePoint>> MakeChainCurve(
    const Chain& chain, absl::string_view solver) {
  if (auto s = CheckInput(chain, solver); !s.ok()) return s;
  const bool keep = solver == "keep";
  absl::StatusOr<Bytes> least = LeastBudget(chain, keep);
  if (!least.ok()) return least.status();
  const ChainActions actions =
      keep ? KeepActions(chain) : RotorLeastPlan(chain);
  const auto simulation = SimulateChain(chain, actions, *least);
  if (!simulation.ok()) {
    return absl::InternalError(simulation.status().message());
  }
  std::vector<CurvePoint> curve = {{*least, simulation->time}};
  if (keep) return curve;
  for (const CurvePoint& point : RotorTable(chain, EnoughFor(chain)).Curve()) {
    if (point.budget < curve.back().budget) continue;
    if (point.budget == curve.back().budget) curve.pop_back();
    if (curve.empty() || point.time < curve.back().time) {
      curve.push_back(point);
    }
  }
  return curve;
}

}  // namespace ebbtide
