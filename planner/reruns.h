// Which ops run again to rebuild a value. Private to the planner.
#ifndef EBBTIDE_PLANNER_RERUNS_H_
#define EBBTIDE_PLANNER_RERUNS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/graph.h"

namespace ebbtide {

// In their order, the ops that rebuild `target`, which is away, from values
// that are not.
std::vector<int> MissingOps(const Graph& graph, int target,
                            absl::FunctionRef<bool(int)> is_away);

// Of each value: the last stage that needs it, or -1.
std::vector<int> LastNeeds(const Graph& graph);
// The last before which it, or what can be made of it, may have to be there.
std::vector<int> LastUses(const Graph& graph);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_RERUNS_H_
