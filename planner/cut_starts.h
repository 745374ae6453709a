// First plans of the graph planner, from the cut. Private to the planner.
#ifndef EBBTIDE_PLANNER_CUT_STARTS_H_
#define EBBTIDE_PLANNER_CUT_STARTS_H_

#include <vector>

#include "planner/cut.h"
#include "planner/evaluator.h"
#include "planner/graph.h"
#include "planner/retention.h"

namespace ebbtide {

// Drafts from the cut at many prices: `keep` bytes fall as the price rises.
class CutStarts {
 public:
  explicit CutStarts(const Graph& graph, bool offload);

  // Handling of values that the cut does not keep: hold them once they are
  // recomputed, hold them for a short way, drop them after each use.
  enum class Rest { kHold, kNear, kDrop };
  static constexpr Rest kRests[] = {Rest::kHold, Rest::kNear, Rest::kDrop};

  // The draft of the lowest price whose peak is within `budget`, by bisection.
  // False if there is none.
  bool Fit(int64_t budget, Rest rest, const Progress& progress, Draft* draft);
  // The draft that keeps fewest bytes.
  Draft Fewest(Rest rest);

 private:
  Draft Make(const CutSolution& solution, Rest rest) const;
  int64_t PeakOf(const Draft& draft);
  bool KeepsTooMuch(int64_t budget) const;
  // The assumed cause of a draft over the budget. kKept: too many bytes are
  // kept. kEither: that, or too much is recomputed.
  enum class Over { kKept, kEither };
  bool Bisect(int64_t budget, Rest rest, Over over, const Progress& progress,
              Draft* draft);

  const Graph& graph_;
  const bool offload_;
  CutProblem problem_;
  Evaluator evaluator_;
  Evaluation evaluation_;
  double highest_price_ = 1;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CUT_STARTS_H_
