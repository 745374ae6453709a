// Who uses each value of a graph, for the hierarchical solver. Private to the
// planner.
#ifndef EBBTIDE_PLANNER_USES_H_
#define EBBTIDE_PLANNER_USES_H_

#include <vector>

#include "planner/graph.h"
#include "planner/partition.h"

namespace ebbtide {

// Who uses each value, by itself or through values that cannot be kept and are
// made from it again: where a part ends matters for them.
struct Uses {
  explicit Uses(const Graph& graph);

  std::vector<int> last_reader;  // op; -1: none
  std::vector<int> first_stage;  // that needs it; stages: none
  std::vector<int> last_stage;   // -1: none
  // Whether an op or a stage outside the part uses a value of it.
  bool Outside(int v, const Part& part) const {
    return last_reader[v] >= part.end || first_stage[v] < part.first_stage ||
           last_stage[v] >= part.end_stage;
  }
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_USES_H_
