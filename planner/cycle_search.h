// Plans for a cycle: the greedy ones improved by local search. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_CYCLE_SEARCH_H_
#define EBBTIDE_PLANNER_CYCLE_SEARCH_H_

#include <cstdint>
#include <optional>

#include "planner/cycle.h"
#include "planner/cycle_simulate.h"
#include "planner/units.h"

namespace ebbtide {

struct CycleSolution {
  CyclePlan plan;
  CycleSimulation simulation;  // fits, or there is no plan
};

// True if `a` fits and `b` does not, or takes longer.
bool IsBetter(const CycleSolution& a, const CycleSolution& b);

// The greedy choice alone, with the items back as early as they fit.
CycleSolution SolveGreedily(const Cycle& cycle, Bytes budget, bool once);

struct CycleEffort {
  int choices = 4000;  // choices of offloaded gaps that are simulated
  int shifts = 2000;   // shifts of a single return
  uint32_t seed = 1;
};

// The best plan found. There is one wherever what each op needs fits; `first`
// is a choice to start from besides the greedy ones.
CycleSolution SolveCycle(const Cycle& cycle, Bytes budget,
                         const CycleEffort& effort,
                         const CyclePlan* first = nullptr);

// The least budget that there is a plan for.
Bytes LeastCycleBudget(const Cycle& cycle);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_SEARCH_H_
