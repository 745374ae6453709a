// A profile compiled for the graph solvers: flat arrays, duplicates removed,
// and what each value and op allows. Private to the planner.
#ifndef EBBTIDE_PLANNER_GRAPH_H_
#define EBBTIDE_PLANNER_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

// Lists of integers, one behind the other.
class IntLists {
 public:
  void Add(absl::Span<const int> list) {
    items_.insert(items_.end(), list.begin(), list.end());
    ends_.push_back(static_cast<int>(items_.size()));
  }
  absl::Span<const int> operator[](int i) const {
    return absl::MakeConstSpan(items_).subspan(ends_[i],
                                               ends_[i + 1] - ends_[i]);
  }

 private:
  std::vector<int> items_;
  std::vector<int> ends_ = {0};
};

struct Graph {
  const Profile* profile = nullptr;
  int ops = 0;
  int stages = 0;
  int values = 0;

  IntLists inputs;     // by op
  IntLists outputs;    // by op
  IntLists needs;      // by stage
  IntLists needed_by;  // by value: stages, ascending
  // Values that the script releases after each forward op, and after each
  // stage.
  IntLists released_forward;
  IntLists released_stage;

  // By value.
  std::vector<int64_t> bytes;
  std::vector<int> op;
  std::vector<char> saved;
  std::vector<char> keepable;  // by a plan, across the loss
  std::vector<char> movable;   // by a plan; not held across the loss
  // Saved, and its op cannot be recomputed: every plan keeps it.
  std::vector<char> pinned;
  // Last stage through which the script holds it; -1: not across the loss.
  std::vector<int> held;

  // By op.
  std::vector<Time> time;
  std::vector<int64_t> other;
  std::vector<int64_t> scratch;
  // It may be recomputed, and its inputs can be obtained at any time in the
  // backward pass.
  std::vector<char> replayable;
  // The same, or the script may hold some input: no plan of ours makes use of
  // that, but a lower bound must allow for it.
  std::vector<char> may_replay;
};

// The arrays refer to `profile`, which must stay alive. InvalidArgument, naming
// the place, if a stage needs a value that can be neither kept nor recomputed.
absl::StatusOr<Graph> CompileGraph(const Profile& profile,
                                   bool allow_recompute);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_GRAPH_H_
