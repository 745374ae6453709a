#include "planner/weight_plan.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/chain_actions.h"
#include "planner/chain_slots.h"
#include "planner/chain_table.h"
#include "planner/chain_validate.h"
#include "planner/cycle.h"
#include "planner/cycle_actions.h"
#include "planner/cycle_search.h"
#include "planner/pofo.h"

namespace ebbtide {
namespace {

using Do = ChainAction::Do;

// A plan for the values of a chain and one for its cycle.
struct Candidate {
  ChainActions compute;
  Cycle cycle;
  CycleSolution solution;
};

Chain WithoutWeights(Chain chain) {
  chain.weights.clear();
  return chain;
}

// Values that `actions` offload are offloaded from the start of the search.
CyclePlan FirstPlan(const Cycle& cycle, const ChainActions& actions) {
  CyclePlan plan = StayingPlan(cycle);
  for (const ChainAction& a : actions) {
    if (a.what != Do::kOffload) continue;
    for (size_t g = 0; g < cycle.gaps.size(); ++g) {
      const CycleItem& item = cycle.items[cycle.gaps[g].item];
      if (item.what == a.item && item.index == a.stage) plan.away[g] = true;
    }
  }
  return plan;
}

// Values and weights under one budget: for many shares of it that the values
// may take, the chain's plan, then what moves in its cycle, the values as well;
// then shares beside the best one, until none is better.
class Joint {
 public:
  Joint(const Chain& chain, Bytes budget, int threads)
      : chain_(chain),
        values_(WithoutWeights(chain)),
        budget_(budget),
        pofo_(values_, kFewestSlots, Rounding::kUp, threads),
        least_(LeastChainBudget(values_, {.unpinned = true})),
        most_(EnoughFor(values_)) {}

  // The bound for the values alone.
  Time Bound() const { return pofo_.Solve(budget_, kFew).bound; }

  Candidate Run() {
    ConsiderKept();
    Consider(0, LeastChainPlan(values_, {.unpinned = true}));
    for (int k = 0; k <= kShares; ++k) Try(k * kFine);
    for (int step = kFine / 2; step > 0; step /= 2) {
      int at = -1;
      while (at != best_at_) {
        at = best_at_;
        Try(at - step);
        Try(at + step);
      }
    }
    if (best_.solution.simulation.fits) {
      Take(best_at_, SolveCycle(best_.cycle, budget_, {}, &best_.solution.plan),
           best_.cycle, best_.compute);
    }
    return best_;
  }

 private:
  static constexpr int kShares = 12;
  static constexpr int kFine = 4;  // further steps between two of them
  static constexpr CycleEffort kLittle = {.choices = 300, .shifts = 100};
  static constexpr PofoEffort kFew = {.labels = 100, .plans = 50};

  void Try(int at) {
    if (at < 0 || at > kShares * kFine || !tried_.insert(at).second) {
      return;
    }
    const int64_t wide = Count(most_) - Count(least_);
    const Bytes budget =
        least_ + Bytes{static_cast<int64_t>(static_cast<double>(wide) * at /
                                            (kShares * kFine))};
    const PofoSolution moved = pofo_.Solve(budget, kFew);
    if (moved.actions.empty()) return;
    Consider(at, moved.actions);
  }

  // Never slower than where no value moves.
  void ConsiderKept() {
    const ChainActions compute = KeepAll(Stages(chain_));
    const Cycle cycle = KeptCycle(chain_);
    Take(kShares * kFine, SolveCycle(cycle, budget_, {}), cycle, compute);
  }

  void Consider(int at, const ChainActions& actions) {
    const ChainActions compute = ComputeActions(actions);
    const Cycle cycle = CycleOf(chain_, compute, HasLanes(chain_));
    const CyclePlan first = FirstPlan(cycle, actions);
    Take(at, SolveCycle(cycle, budget_, kLittle, &first), cycle, compute);
  }

  void Take(int at, CycleSolution solution, const Cycle& cycle,
            const ChainActions& compute) {
    Candidate next{compute, cycle, std::move(solution)};
    if (!IsBetter(next.solution, best_.solution)) return;
    best_ = std::move(next);
    best_at_ = at;
  }

  const Chain& chain_;
  const Chain values_;
  const Bytes budget_;
  const Pofo pofo_;
  const Bytes least_;  // for the values, without lanes
  const Bytes most_;
  std::set<int> tried_;
  Candidate best_;
  int best_at_ = 0;
};

Candidate Solve(const Chain& chain, Bytes budget, absl::string_view solver) {
  Candidate kept;
  kept.compute = KeepAll(Stages(chain));
  kept.cycle = KeptCycle(chain);
  kept.solution = solver == "weights"
                      ? SolveCycle(kept.cycle, budget, {})
                      : SolveGreedily(kept.cycle, budget, solver == "greedy");
  return kept;
}

// For `joint` of the plans that need least for their values.
Bytes LeastBudget(const Chain& chain, absl::string_view solver) {
  if (solver != "joint") return LeastCycleBudget(KeptCycle(chain));
  const auto least = [&](const ChainActions& compute) {
    return LeastCycleBudget(CycleOf(chain, compute, HasLanes(chain)));
  };
  const ChainActions lean =
      LeastChainPlan(WithoutWeights(chain), {.unpinned = true});
  return std::min(least(ComputeActions(lean)), least(KeepAll(Stages(chain))));
}

// Each op once, and updates where they take least of its time.
Time LowerBound(const Chain& chain, absl::string_view solver) {
  Time sum = solver == "joint" ? LeastTime(chain) : BaseTime(chain);
  for (const ChainWeight& weight : chain.weights) {
    if (weight.host_update < 0) sum += weight.update;
  }
  return sum;
}

absl::Status Judge(const Chain& chain, const CycleSimulation& simulation,
                   ChainPlan* plan) {
  plan->time = simulation.time;
  plan->peak = simulation.peak;
  const absl::Status valid = ValidateChainPlan(chain, *plan);
  if (valid.ok()) return valid;
  return absl::InternalError(absl::StrCat(plan->solver, ": ", valid.message()));
}

}  // namespace

bool IsWeightSolver(absl::string_view solver) {
  return solver == "weights" || solver == "greedy" || solver == "greedy-star" ||
         solver == "joint";
}

absl::StatusOr<ChainPlan> MakeWeightPlan(const Chain& chain, Bytes budget,
                                         absl::string_view solver,
                                         int threads) {
  ChainPlan plan;
  plan.solver = std::string(solver);
  plan.budget = budget;
  plan.lower_bound_time = LowerBound(chain, solver);
  plan.least_budget = LeastBudget(chain, solver);
  Candidate found;
  if (solver == "joint") {
    Joint joint(chain, budget, threads);
    found = joint.Run();
    plan.values_bound_time = joint.Bound();
  } else {
    found = Solve(chain, budget, solver);
  }
  plan.feasible = found.solution.simulation.fits;
  if (!plan.feasible) return plan;
  // The plan that a search has found needs no more than it was given.
  plan.least_budget = std::min(plan.least_budget, budget);
  plan.actions = WriteCycle(Stages(chain), found.compute, found.cycle,
                            found.solution.plan);
  if (auto s = Judge(chain, found.solution.simulation, &plan); !s.ok()) {
    return s;
  }
  return plan;
}

std::vector<ChainAction> ComputeActions(const std::vector<ChainAction>& all) {
  std::vector<ChainAction> compute;
  for (const ChainAction& a : all) {
    if (a.what == Do::kForward || a.what == Do::kLoss ||
        a.what == Do::kBackward) {
      compute.push_back(a);
    }
  }
  return compute;
}

}  // namespace ebbtide
