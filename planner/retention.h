// Graph plans as retention bits.
//
// A plan is a bit W(v, t) for every value v and every stage t, and one for the
// loss: after stage t (at the loss) v stays on the device until its next use,
// if it is there. A value that a stage needs and that is not there is
// recomputed before it: the ops of the missing closure, in their order,
// intermediate values leaving after their last use unless their bit holds them.
// Bits matter where the value is used and where the op that makes it is
// recomputed; between these any bits mean the same.
//
// A value may also be recomputed before a stage that has no use for it, while
// its inputs happen to be there: such stages are listed beside its bits. With
// them every plan can be written that recomputes an op at most once before each
// stage. Private to the planner.
#ifndef EBBTIDE_PLANNER_RETENTION_H_
#define EBBTIDE_PLANNER_RETENTION_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/graph.h"

namespace ebbtide {

// The bits of one value by stage; stage -1 is the loss. Written as the stages
// at which the bit changes: most values of most plans change once or never.
class Row {
 public:
  using Stages = absl::InlinedVector<int, 4>;
  static constexpr int kEver = std::numeric_limits<int>::max();

  char Get(int t) const;
  // True if some bit of stages [begin, end) is set.
  bool Any(int begin, int end) const;
  // Sets the bits of stages [begin, end).
  void Set(int begin, int end, char bit);
  void Set(int t, char bit) { Set(t, t + 1, bit); }
  void Fill(char bit);
  // Every bit but that of the loss `by` stages later, of a plan of so many
  // stages; what comes from outside continues the bits that are there.
  void Shift(int by, int stages);

  // Ascending stages before which the value is made to be there though nothing
  // uses it: a use as far as bits are concerned.
  const absl::InlinedVector<int, 2>& early() const { return early_; }
  void AddEarly(int t);
  void RemoveEarly(int t);

  friend bool operator==(const Row&, const Row&) = default;

 private:
  char first_ = 0;  // at the loss
  Stages flips_;    // ascending
  absl::InlinedVector<int, 2> early_;
};

class Retention {
 public:
  explicit Retention(int values) : rows_(values) {}

  char Get(int v, int t) const { return rows_[v].Get(t); }
  void Set(int v, int t, char bit) { rows_[v].Set(t, bit); }
  void SetRow(int v, char bit) { rows_[v].Fill(bit); }
  const Row& row(int v) const { return rows_[v]; }
  Row& row(int v) { return rows_[v]; }

 private:
  std::vector<Row> rows_;
};

// A plan as the solvers see it.
struct Draft {
  Retention bits;
  std::vector<char> offloaded;  // by value; empty: offload is not allowed
};

// Keeps every value that can be kept and offloads none.
Draft KeepAll(const Graph& graph, bool offload);

// How far a run has come, from 0 to 1; 1 ends it.
using Progress = std::function<double()>;

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_RETENTION_H_
