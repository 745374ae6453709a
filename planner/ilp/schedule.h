// What a solution of the program says, and the actions that carry it out.
// Private to planner/ilp.
#ifndef EBBTIDE_PLANNER_ILP_SCHEDULE_H_
#define EBBTIDE_PLANNER_ILP_SCHEDULE_H_

#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"

namespace ebbtide {

struct Schedule {
  int passes = 1;
  std::vector<std::vector<char>> stay;  // of segments and the end, by value
  std::vector<std::vector<int>> run;    // of segments: ops, in order
};

// Every value leaves as early as the schedule allows.
std::vector<Action> ActionsOf(const Graph& graph, const Schedule& schedule);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_SCHEDULE_H_
