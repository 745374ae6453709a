// The span in which values are of use, and the ops that recompute one, for the
// writers of plans instant by instant. Private to the planner.
#ifndef EBBTIDE_PLANNER_RERUNS_H_
#define EBBTIDE_PLANNER_RERUNS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/graph.h"

namespace ebbtide {

// In their order, the ops that recompute the absent value `target` from present
// values.
std::vector<int> MissingOps(const Graph& graph, int target,
                            absl::FunctionRef<bool(int)> is_away);

// By value: the last stage that needs it, or -1.
std::vector<int> LastNeeds(const Graph& graph);
// The last before which it, or what can be made of it, may have to be there.
std::vector<int> LastUses(const Graph& graph);

// True if a saved value that no plan may keep has to go at the end of an
// instant, since its first stay must not go beyond the loss.
bool MustGo(const Graph& graph, int value, int instant);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_RERUNS_H_
