// The search for graph plans: retention bits changed move by move, accepted by
// simulated annealing on the time of rebuilding and waiting plus a price on
// every byte above the budget (planner-research 2, section 2). Deterministic
// for a given seed and number of evaluations. Private to the planner.
#ifndef EBBTIDE_PLANNER_SEARCH_H_
#define EBBTIDE_PLANNER_SEARCH_H_

#include <random>
#include <vector>

#include "planner/graph.h"
#include "planner/lanes.h"
#include "planner/retention.h"

namespace ebbtide {

class Search {
 public:
  // `draft` is the start. Pinned values are kept whatever it says.
  Search(const Graph& graph, int64_t budget, bool rebuild, uint64_t seed,
         Draft draft);

  // Replaces the present plan.
  void Load(const Draft& draft);
  // Keeps rebuilt values for good, most time saved per byte first, as long as
  // the budget holds.
  void Refill(const Progress& progress);
  void Anneal(const Progress& progress);

  // Of the present plan.
  Time overhead() const { return now_overhead_; }
  int64_t peak() const { return now_.peak; }
  bool fits() const { return now_over_ <= 0; }
  const Evaluation& evaluation() const { return now_; }
  const Draft& draft() const { return draft_; }

  // The best plan within the budget so far; Load does not forget it.
  bool has_best() const { return has_best_; }
  Time best_overhead() const { return best_overhead_; }
  const Draft& best() const { return best_; }

  int64_t evaluations() const { return evaluator_.evaluations(); }

 private:
  enum class Row { kKeep, kHold, kNear, kDrop };
  struct Undo {
    int value;
    int stage;  // kOffloadBit: not a retention bit
    char bit;
  };

  void Evaluate(Evaluation* result, Time* overhead, double* over);
  void NoteBest();
  bool Move();
  void Revert();
  void Accept();
  void Set(int v, int t, char bit);
  void SetOffloaded(int v, char bit);
  void SetRow(int v, Row row);
  int Below(int n) { return static_cast<int>(rng_() % n); }

  // Moves.
  void FlipOne();
  void DropAtPeak();
  bool HoldRebuilt(int* value, int* stage);
  void HoldAndDrop();
  void SwapRows();
  void CopyRun();
  void RowRun();
  void SetAtStage();
  void SetEvents();
  void FlipOffload();
  bool DropAt(int t);
  int PeakStage();

  void IndexEvents();
  int PreviousEvent(int v, int t) const;
  void AdaptWeights();

  const Graph& graph_;
  const int64_t budget_;
  const bool rebuild_;
  std::mt19937_64 rng_;
  Draft draft_;
  Evaluator evaluator_;
  Lanes lanes_;
  Evaluation now_;
  Evaluation next_;
  Time now_overhead_ = 0;
  Time next_overhead_ = 0;
  double now_over_ = 0;
  double next_over_ = 0;
  std::vector<double> weight_;  // of stages, on bytes above the budget
  std::vector<Undo> undo_;

  std::vector<int> movers_;  // values whose bits matter
  std::vector<int> offloaders_;
  std::vector<int> kind_;                 // of values: same op name and bytes
  std::vector<std::vector<int>> kinds_;   // values of each kind
  std::vector<std::vector<int>> direct_;  // stages that need each value
  std::vector<std::vector<int>> events_;  // -1 and the stages that touch it
  bool events_stale_ = true;

  bool has_best_ = false;
  Time best_overhead_ = 0;
  Draft best_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEARCH_H_
