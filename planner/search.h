// The search for graph plans: retention bits changed move by move, accepted by
// simulated annealing on the time of recomputation and waiting plus a price on
// every byte above the budget. Deterministic for a given seed and number of
// evaluations. Private to the planner.
#ifndef EBBTIDE_PLANNER_SEARCH_H_
#define EBBTIDE_PLANNER_SEARCH_H_

#include <random>
#include <vector>

#include "planner/graph.h"
#include "planner/plan_state.h"
#include "planner/retention.h"
#include "planner/window.h"

namespace ebbtide {

class Search {
 public:
  // `draft` is the start. Pinned values are kept whatever it says.
  Search(const Graph& graph, int64_t budget, bool rebuild, uint64_t seed,
         const Draft& draft);

  // Replaces the present plan.
  void Load(const Draft& draft);
  // Keeps recomputed values for good, most time saved per byte first, as long
  // as the budget holds.
  void Refill(const Progress& progress);
  // `patience`: moves in a row within the budget after which bytes above it
  // grow cheaper, until leaving it pays. With little the search roams, from one
  // side of the budget to the other; with much it settles inside.
  static constexpr int kRoaming = 40;
  static constexpr int kSettling = 640;
  void Anneal(const Progress& progress, int patience);
  // Makes a few decisions of the best plan anew, exactly, again and again
  // (planner/window.h). Does nothing for plans that move values.
  void Reoptimise(const Progress& progress);

  // Overhead, peak and fit of the present plan.
  Time overhead() const { return now_.overhead; }
  int64_t peak() const { return state_.peak(); }
  bool fits() const { return now_.over <= 0; }
  // Nothing is wrong with it but, perhaps, its peak.
  bool valid() const { return !state_.broken() && state_.host_excess() == 0; }
  const Draft& draft() const { return state_.draft(); }

  // The best plan within the budget so far; Load does not forget it.
  bool has_best() const { return has_best_; }
  Time best_overhead() const { return best_overhead_; }
  Draft best() const;

  int64_t evaluations() const { return evaluations_; }

 private:
  enum class Treatment { kKeep, kHold, kNear, kDrop };
  struct Score {
    Time overhead = 0;
    double over = 0;  // bytes above the budget, weighted
  };

  Score Present();
  void NoteBest();
  bool Move();
  // Accepts the move that was made, or undoes it.
  void Decide(double price, double temperature);
  void Accept(const Score& score);
  void Treat(int v, Treatment treatment);
  int Below(int n) { return static_cast<int>(rng_() % n); }
  int AnyOf(const std::vector<int>& list) { return list[Below(list.size())]; }

  // Windows.
  std::vector<Decision> Around(int t);
  std::vector<Decision> MostDoubtful(const std::vector<Decision>& decisions);

  // Moves.
  void FlipOne();
  void DropAtPeak();
  bool HoldRebuilt(int* value, int* stage);
  void HoldAndDrop();
  void Swap();
  void CopyRun();
  void TreatRun();
  void SetAtStage();
  void SetEvents();
  void RebuildEarly();
  void FlipOffload();
  bool DropAt(int t);
  int PeakStage();
  int PreviousEvent(int v, int t) const;

  const Graph& graph_;
  const bool rebuild_;
  const int64_t budget_;
  std::mt19937_64 rng_;
  PlanState state_;
  Score now_;
  int64_t evaluations_ = 0;

  std::vector<int> movers_;  // values whose bits matter
  std::vector<int> offloaders_;
  std::vector<int> kind_;                // by value: same op name and bytes
  std::vector<std::vector<int>> kinds_;  // values of each kind

  // The best plan is `best_` with the changes of `since_` undone, last first;
  // or, while best_is_now_, the present plan with them undone.
  bool has_best_ = false;
  bool best_is_now_ = false;
  Time best_overhead_ = 0;
  Draft best_;
  std::vector<PlanState::OldRow> since_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEARCH_H_
