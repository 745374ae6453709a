// The schedule in a solution of the program, and the actions that carry it out.
// Private to planner/ilp.
#ifndef EBBTIDE_PLANNER_ILP_SCHEDULE_H_
#define EBBTIDE_PLANNER_ILP_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"

namespace ebbtide {

// A value that goes to the host after the forward op that releases it.
struct Move {
  int value = 0;
  int gone = 0;   // instant before which its bytes have left
  int asked = 0;  // segment in which its way back starts
  int back = 0;   // segment that reads it
};

struct Schedule {
  int passes = 1;
  std::vector<std::vector<char>> stay;  // by segment and for the end, by value
  std::vector<std::vector<int>> run;    // by segment: ops, in order
  std::vector<Move> moves;
  std::vector<Time> start;  // by instant; empty if nothing is offloaded
};

// Every value leaves as early as the schedule allows, and comes back as early
// in its segment as the budget does.
std::vector<Action> ActionsOf(const Graph& graph, int64_t budget,
                              const Schedule& schedule);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_SCHEDULE_H_
