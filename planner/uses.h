// A part of a graph, and what other parts use of it, for the hierarchical
// solver. Private to the planner.
#ifndef EBBTIDE_PLANNER_USES_H_
#define EBBTIDE_PLANNER_USES_H_

#include <vector>

#include "absl/types/span.h"
#include "planner/graph.h"

namespace ebbtide {

// Forward ops [begin, end) and the stages [first_stage, end_stage) that are
// mostly theirs. Siblings follow one another forward in `children`, so their
// stages do so backward.
struct Part {
  int begin = 0;
  int end = 0;
  int first_stage = 0;
  int end_stage = 0;
  std::vector<int> children;  // indices of parts; empty: not split
};

// The uses of each value, by itself or through values that are made from it:
// the ends of a part matter for them.
struct Uses {
  // `little`: a share of the mean time per byte of all values.
  Uses(const Graph& graph, double little);

  // True if other parts rely on it. False for a value that cannot be kept, or
  // that is made in little time from no more bytes: they make that themselves.
  std::vector<char> kept;
  std::vector<int> last_reader;  // op; -1: none
  std::vector<int> first_stage;  // that needs it; stages: none
  std::vector<int> last_stage;   // -1: none
  // True if an op or a stage outside the part uses a value of it.
  bool Outside(int v, const Part& part) const {
    return last_reader[v] >= part.end || first_stage[v] < part.first_stage ||
           last_stage[v] >= part.end_stage;
  }
};

// By stage: the op that made the last of its needs; -1: it has none.
std::vector<int> HomesOf(const Graph& graph);

// Shares the stages [first, end) out among parts that follow one another
// forward. Each border is where fewest stages are on the wrong side of it:
// those whose needs were all made before it, or some behind it.
void AssignStages(const std::vector<int>& homes, int first, int end,
                  absl::Span<Part* const> row);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_USES_H_
