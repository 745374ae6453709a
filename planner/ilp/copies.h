// In which order a lane copies what a solution of the program moves. Private to
// planner/ilp.
#ifndef EBBTIDE_PLANNER_ILP_COPIES_H_
#define EBBTIDE_PLANNER_ILP_COPIES_H_

#include <vector>

#include "planner/graph.h"
#include "planner/ilp/schedule.h"

namespace ebbtide {

struct CopyOrder {
  std::vector<std::vector<int>> out;   // by op: values that leave after it
  std::vector<std::vector<int>> back;  // by segment: those asked for in it
};

// The program lets a lane change between values; a lane does not. Among the
// values that may be copied the first deadline goes first, and nothing is
// handed to a lane that has work until the next op or stage ends.
CopyOrder OrderCopies(const Graph& graph, const Schedule& schedule);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_ILP_COPIES_H_
