#include "planner/cut_starts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebbtide {
namespace {

constexpr int kNear = 36;  // stages, a little over a transformer block

}  // namespace

CutStarts::CutStarts(const Graph& graph, bool offload)
    : graph_(graph),
      offload_(offload),
      problem_(CutProblem::ForPlan(graph)),
      evaluator_(graph) {
  // At this price a byte is worth the whole forward pass.
  Time total = 0;
  for (Time time : graph.time) total += time;
  highest_price_ = std::max(total, 1e-9);
}

Draft CutStarts::Make(const CutSolution& solution, Rest rest) const {
  Draft draft = KeepAll(graph_, offload_);
  for (int v = 0; v < graph_.values; ++v) {
    if (solution.keeps[v] || graph_.pinned[v]) continue;
    draft.bits.SetRow(v, rest == Rest::kHold);
    draft.bits.Set(v, -1, 0);
    if (rest != Rest::kNear) continue;
    for (int t : graph_.needed_by[v]) {
      draft.bits.row(v).Set(std::max(0, t - kNear), t, 1);
    }
  }
  return draft;
}

int64_t CutStarts::PeakOf(const Draft& draft) {
  evaluator_.Evaluate(draft, &evaluation_);
  return evaluation_.broken ? std::numeric_limits<int64_t>::max()
                            : evaluation_.peak;
}

Draft CutStarts::Fewest(Rest rest) { return Make(problem_.Solve(-1), rest); }

// True if the last draft is over the budget before anything is recomputed.
bool CutStarts::KeepsTooMuch(int64_t budget) const {
  for (int64_t peak : evaluation_.forward_peak) {
    if (peak > budget) return true;
  }
  for (int t = 0; t < graph_.stages; ++t) {
    if (evaluation_.rebuilt_begin[t + 1] > 0) return false;
    if (evaluation_.stage_peak[t] > budget) return true;
  }
  return false;
}

bool CutStarts::Bisect(int64_t budget, Rest rest, Over over,
                       const Progress& progress, Draft* draft) {
  CutSolution few = problem_.Solve(-1);
  CutSolution many = problem_.Solve(0);
  bool found = false;
  // Prices span many powers of ten; bisect their logarithm.
  double low = std::log(highest_price_) - 45;
  double high = std::log(highest_price_);
  constexpr int kRounds = 24;
  for (int round = 0; round < kRounds && progress() < 1; ++round) {
    const double middle = (low + high) / 2;
    CutSolution next = problem_.Solve(std::exp(middle));
    // Most prices change nothing, and drafts cost more than cuts.
    if (next.keeps == few.keeps) {
      high = middle;
      continue;
    }
    if (next.keeps == many.keeps) {
      low = middle;
      continue;
    }
    Draft candidate = Make(next, rest);
    const bool fits = PeakOf(candidate) <= budget;
    if (fits || (over == Over::kEither && !KeepsTooMuch(budget))) {
      high = middle;
      few = std::move(next);
    } else {
      low = middle;
      many = std::move(next);
    }
    if (!fits) continue;
    *draft = std::move(candidate);
    found = true;
  }
  return found;
}

bool CutStarts::Fit(int64_t budget, Rest rest, const Progress& progress,
                    Draft* draft) {
  Draft fewest = Fewest(rest);
  const bool found = PeakOf(fewest) <= budget;
  if (found) *draft = std::move(fewest);
  return Bisect(budget, rest, Over::kKept, progress, draft) || found ||
         Bisect(budget, rest, Over::kEither, progress, draft);
}

}  // namespace ebbtide
