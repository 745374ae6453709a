#include "planner/cycle_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "planner/cycle_greedy.h"

namespace ebbtide {
namespace {

// Greedy*'s coefficients of what leaves once, each a start.
constexpr double kSingles[] = {1.0, 1.5, 2.0, 4.0};
// Shares of the updates that the host does, each a start as well.
constexpr double kOnHost[] = {0, 0.25, 0.5, 0.75, 1};
// Share of the time that a change may cost at first.
constexpr double kHeat = 0.01;

// Offloads only the items of `share` of the updates on the host, spread evenly
// over those that it can do.
CyclePlan PlanWithHost(const Cycle& cycle, double share) {
  CyclePlan plan = StayingPlan(cycle);
  double due = 0;
  for (size_t u = 0; u < cycle.updates.size(); ++u) {
    if (cycle.updates[u].host < 0) continue;
    due += share;
    if (due < 1 - 1e-9) continue;
    due -= 1;
    plan.on_host[u] = true;
    plan.away[cycle.updates[u].gap] = true;
  }
  return plan;
}

// An update on the host moves the weight behind it, and its state is not here.
void Settle(const Cycle& cycle, CyclePlan* plan) {
  for (size_t u = 0; u < cycle.updates.size(); ++u) {
    if (!plan->on_host[u]) continue;
    plan->away[cycle.updates[u].gap] = true;
    for (size_t g = 0; g < cycle.gaps.size(); ++g) {
      if (cycle.gaps[g].item == cycle.updates[u].state) plan->away[g] = false;
    }
  }
}

CycleSolution Place(const Cycle& cycle, Bytes budget, CyclePlan plan) {
  Settle(cycle, &plan);
  CycleSolution solution;
  if (PlaceReturns(cycle, budget, &plan)) {
    solution.simulation = SimulateCycle(cycle, plan, budget);
  }
  solution.plan = std::move(plan);
  return solution;
}

bool HasLanes(const Cycle& cycle) { return cycle.d2h > 0 && cycle.h2d > 0; }

class Search {
 public:
  Search(const Cycle& cycle, Bytes budget, const CycleEffort& effort)
      : c_(cycle), budget_(budget), effort_(effort), rng_(effort.seed) {
    for (const CycleOp& op : c_.ops) least_ += op.time;
    for (size_t g = 0; g < c_.gaps.size(); ++g) {
      const CycleGap& gap = c_.gaps[g];
      if (gap.before > gap.after + 1) movable_.push_back(static_cast<int>(g));
    }
    for (size_t u = 0; u < c_.updates.size(); ++u) {
      if (c_.updates[u].host >= 0) updates_.push_back(static_cast<int>(u));
    }
  }

  void Start(CyclePlan plan) { Keep(Place(c_, budget_, std::move(plan))); }

  void StartGreedily(const GreedyOptions& options) {
    for (double share : kOnHost) {
      const auto plan =
          ChooseGreedily(c_, budget_, options, PlanWithHost(c_, share));
      if (plan.has_value()) Start(*plan);
      if (updates_.empty()) return;
    }
  }

  // If there is a plan at all, there is one with every possible item offloaded.
  void StartLean() {
    for (double share : {0.0, 1.0}) {
      CyclePlan plan = PlanWithHost(c_, share);
      plan.away.assign(plan.away.size(), 1);
      Start(std::move(plan));
    }
  }

  CycleSolution Run() {
    if (!best_.simulation.fits || movable_.empty()) return best_;
    Choose();
    Shift();
    return best_;
  }

 private:
  void Keep(CycleSolution solution) {
    if (IsBetter(solution, best_)) best_ = std::move(solution);
  }

  int Draw(int end) { return static_cast<int>(rng_() % end); }
  double Share() { return static_cast<double>(rng_()) / 4294967296.0; }

  void Choose() {
    CycleSolution now = best_;
    for (int n = 0; n < effort_.choices; ++n) {
      if (best_.simulation.time <= least_) return;
      CyclePlan plan = now.plan;
      Change(&plan);
      CycleSolution next = Place(c_, budget_, std::move(plan));
      if (!next.simulation.fits) continue;
      const double left = 1 - n / static_cast<double>(effort_.choices);
      const Time heat = kHeat * left * left * best_.simulation.time;
      const Time worse = next.simulation.time - now.simulation.time;
      if (worse > -heat * std::log(std::max(1e-12, Share()))) continue;
      now = std::move(next);
      Keep(now);
    }
  }

  void Change(CyclePlan* plan) {
    const int kind = Draw(8);
    const int g = movable_[Draw(static_cast<int>(movable_.size()))];
    if (kind == 0 && !updates_.empty()) {
      char& on_host =
          plan->on_host[updates_[Draw(static_cast<int>(updates_.size()))]];
      on_host = !on_host;
    } else if (kind <= 2) {
      const char away = !plan->away[g];
      for (int other : movable_) {
        if (c_.gaps[other].item == c_.gaps[g].item) plan->away[other] = away;
      }
    } else {
      plan->away[g] = !plan->away[g];
      if (kind <= 5) return;
      // Something else stays for it.
      const int other = movable_[Draw(static_cast<int>(movable_.size()))];
      plan->away[other] = !plan->away[g];
    }
  }

  void Shift() {
    std::vector<int> away;
    for (size_t g = 0; g < c_.gaps.size(); ++g) {
      if (best_.plan.away[g]) away.push_back(static_cast<int>(g));
    }
    for (int n = 0; n < effort_.shifts && !away.empty(); ++n) {
      if (best_.simulation.time <= least_) return;
      const int g = away[Draw(static_cast<int>(away.size()))];
      const CycleGap& gap = c_.gaps[g];
      CycleSolution next = best_;
      const int step = 1 + Draw(3);
      int& back = next.plan.back[g];
      back = std::clamp(Draw(2) == 0 ? back - step : back + step, gap.after + 1,
                        gap.before);
      if (back == best_.plan.back[g]) continue;
      next.simulation = SimulateCycle(c_, next.plan, budget_);
      if (next.simulation.fits &&
          next.simulation.time <= best_.simulation.time) {
        best_ = std::move(next);
      }
    }
  }

  const Cycle& c_;
  const Bytes budget_;
  const CycleEffort effort_;
  std::mt19937 rng_;
  Time least_ = 0;            // no step is shorter than its ops
  std::vector<int> movable_;  // gaps with an op inside
  std::vector<int> updates_;  // that the host can do
  CycleSolution best_;
};

}  // namespace

bool IsBetter(const CycleSolution& a, const CycleSolution& b) {
  if (!a.simulation.fits) return false;
  return !b.simulation.fits || a.simulation.time < b.simulation.time;
}

CycleSolution SolveGreedily(const Cycle& cycle, Bytes budget, bool once) {
  if (!HasLanes(cycle)) return Place(cycle, budget, StayingPlan(cycle));
  const auto plan =
      ChooseGreedily(cycle, budget, {.once = once}, StayingPlan(cycle));
  if (!plan.has_value()) return {StayingPlan(cycle)};
  return Place(cycle, budget, *plan);
}

CycleSolution SolveCycle(const Cycle& cycle, Bytes budget,
                         const CycleEffort& effort, const CyclePlan* first) {
  if (!HasLanes(cycle)) return Place(cycle, budget, StayingPlan(cycle));
  Search search(cycle, budget, effort);
  if (first != nullptr) search.Start(*first);
  search.StartGreedily({.once = true});
  for (double single : kSingles) search.StartGreedily({.single = single});
  search.StartLean();
  return search.Run();
}

Bytes LeastCycleBudget(const Cycle& cycle) {
  Bytes least{std::numeric_limits<int64_t>::max()};
  for (double share : {0.0, 1.0}) {
    CyclePlan plan = StayingPlan(cycle);
    if (HasLanes(cycle)) {
      plan = PlanWithHost(cycle, share);
      plan.away.assign(plan.away.size(), 1);
      Settle(cycle, &plan);
    }
    const std::vector<Bytes> live = LeastLive(cycle, plan);
    least = std::min(least, *std::max_element(live.begin(), live.end()));
  }
  return least;
}

}  // namespace ebbtide
