#include "planner/graph_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "planner/bound.h"
#include "planner/cut_starts.h"
#include "planner/demand.h"
#include "planner/evaluator.h"
#include "planner/plan_state.h"
#include "planner/search.h"
#include "planner/sequence_bound.h"

namespace ebbtide {
namespace {

constexpr int64_t kNoPeak = std::numeric_limits<int64_t>::max();

// Sequences of instants are looked at where the gap is above this share of the
// unmanaged step, below which they seldom help.
constexpr double kSequenceGap = 0.001;

// In this share of the time: half where the search needs little of it.
double SequenceShare(const Graph& graph) {
  return std::clamp(50.0 / std::max(1, graph.ops), 0.12, 0.5);
}

// Selects values to offload as long as the host tier has room for them.
class HostBudget {
 public:
  explicit HostBudget(const Graph& graph) : graph_(graph) {
    if (graph.profile->host >= Bytes{}) left_ = Count(graph.profile->host);
  }
  bool Take(int v) {
    if (!graph_.movable[v] || graph_.bytes[v] > left_) return false;
    left_ -= graph_.bytes[v];
    return true;
  }

 private:
  const Graph& graph_;
  int64_t left_ = std::numeric_limits<int64_t>::max();
};

// A share of the time that is left, or of the evaluations.
class Share {
 public:
  Share(const GraphPlanOptions& options, double share, const Search* search)
      : search_(search),
        evaluations_(Part(options.evaluations, share)),
        first_(search == nullptr ? 0 : search->evaluations()),
        begin_(absl::Now()),
        deadline_(options.deadline) {
    const absl::Duration left = deadline_ - begin_;
    length_ = options.evaluations > 0 || left == absl::InfiniteDuration()
                  ? left
                  : left * share;
  }

  double Done() const {
    const absl::Time now = absl::Now();
    if (now >= deadline_) return 1;
    if (evaluations_ > 0 && search_ != nullptr) {
      return static_cast<double>(search_->evaluations() - first_) /
             evaluations_;
    }
    return absl::FDivDuration(now - begin_, length_);
  }

 private:
  // At least one of few: none would mean that the clock alone counts.
  static int64_t Part(int64_t evaluations, double share) {
    if (evaluations == 0) return 0;
    return std::max<int64_t>(1, static_cast<int64_t>(evaluations * share));
  }

  const Search* search_;
  int64_t evaluations_;
  int64_t first_;
  absl::Time begin_;
  absl::Time deadline_;
  absl::Duration length_;
};

class Solver {
 public:
  Solver(const Graph& graph, const GraphPlanOptions& options)
      : graph_(graph),
        options_(options),
        search_(graph, options.budget, options.rebuild, options.seed,
                KeepAll(graph, options.offload)),
        evaluator_(graph),
        search_deadline_(options.deadline) {}

  GraphPlan Run() {
    NoteLeast();
    if (!Done()) Bound();
    if (!Done()) FirstPlans();
    if (options_.bounds) ReserveForSequences();
    if (!Done() && !bound_.infeasible) Improve();
    if (options_.bounds && GapIsWide()) BoundSequences();
    GraphPlan plan{.draft = search_.best(), .least = *least_};
    plan.feasible = search_.has_best();
    plan.no_plan_exists = bound_.infeasible;
    plan.bound = bound_.overhead;
    plan.bound_instants = bound_instants_;
    plan.least_peak = least_peak_;
    return plan;
  }

 private:
  bool Done() const {
    return search_.has_best() &&
           search_.best_overhead() <= bound_.overhead * (1 + 1e-12);
  }

  bool GapIsWide() const {
    return search_.has_best() && search_.best_overhead() - bound_.overhead >
                                     kSequenceGap * BaseTime(*graph_.profile);
  }

  Progress Part(double share) const {
    GraphPlanOptions options = options_;
    options.deadline = search_deadline_;
    const Share part(options, share, &search_);
    return [this, part] { return Done() ? 1.0 : part.Done(); };
  }

  // By the clock alone: what is done once, not evaluation by evaluation.
  Progress UntilDeadline(double share) const {
    GraphPlanOptions options = options_;
    options.evaluations = 0;
    if (options_.evaluations > 0) share = 1;
    const Share part(options, share, nullptr);
    return [part] { return part.Done(); };
  }

  void NoteLeast() {
    const int64_t peak = search_.valid() ? search_.peak() : kNoPeak;
    if (least_.has_value() && peak >= least_peak_) return;
    least_ = search_.draft();
    least_peak_ = peak;
  }

  void Try(Draft draft) {
    evaluator_.Evaluate(draft, &evaluation_);
    if (evaluation_.broken) return;
    search_.Load(draft);
    NoteLeast();
    // Where no plan is within the budget, bytes above it are dear.
    const double over = std::max<double>(0, search_.peak() - options_.budget);
    const Time base = BaseTime(*graph_.profile);
    starts_.push_back(
        {search_.overhead() + base * over / options_.budget, std::move(draft)});
  }

  // Offloads kept values, the earliest first, until the budget holds.
  Draft Offload(Draft draft) {
    HostBudget room(graph_);
    PlanState state(graph_, options_.budget);
    std::fill(draft.offloaded.begin(), draft.offloaded.end(), 0);
    state.Load(std::move(draft));
    for (int v = 0; v < graph_.values && state.peak() > options_.budget; ++v) {
      if (!room.Take(v)) continue;
      state.SetOffloaded(v, 1);
      state.Update();
      state.Commit();
    }
    return state.draft();
  }

  void FirstPlans() {
    CutStarts starts(graph_, options_.offload);
    const Progress progress = UntilDeadline(0.2);
    Draft draft = KeepAll(graph_, options_.offload);
    Time fewest = 0;  // overhead of the last plan that keeps the fewest bytes
    for (const Draft& start : options_.starts) Try(start);
    if (options_.offload) Try(Offload(draft));
    for (CutStarts::Rest rest : CutStarts::kRests) {
      if (!options_.rebuild) break;
      // Plans that drop values after each use may take many times the step, and
      // each move of their search is slow: where those that hold values for a
      // while recompute more than the step already.
      if (rest == CutStarts::Rest::kDrop &&
          fewest > BaseTime(*graph_.profile)) {
        if (!IsNearGood()) TryDemand();
        if (search_.has_best()) break;
      }
      if (starts.Fit(options_.budget, rest, progress, &draft)) Try(draft);
      Try(starts.Fewest(rest));
      fewest = search_.overhead();
      if (options_.offload) OffloadStarts(starts, rest, progress);
    }
    std::stable_sort(
        starts_.begin(), starts_.end(),
        [](const Start& a, const Start& b) { return a.rank < b.rank; });
    if (!search_.has_best()) return;
    search_.Load(search_.best());
    search_.Refill(Part(0.05));
    if (search_.fits()) {
      starts_.insert(starts_.begin(), {search_.overhead(), search_.draft()});
    }
  }

  // True if a plan within the budget takes little more than the step.
  bool IsNearGood() const {
    constexpr double kGood = 0.25;
    return search_.has_best() &&
           search_.best_overhead() <= kGood * BaseTime(*graph_.profile);
  }

  void TryDemand() {
    if (std::exchange(has_tried_demand_, true)) return;
    Draft draft = DemandDraft(graph_, options_.budget, DemandOrder::kNextUse);
    if (options_.offload) draft.offloaded.assign(graph_.values, 0);
    Try(std::move(draft));
  }

  // The bytes that the D2H lane can copy in part of the forward pass are extra
  // room.
  void OffloadStarts(CutStarts& starts, CutStarts::Rest rest,
                     const Progress& progress) {
    Time forward = 0;
    for (Time time : graph_.time) forward += time;
    const double room = graph_.profile->d2h * forward;
    for (double share : {1.0, 0.75, 0.5, 0.25}) {
      Draft draft = KeepAll(graph_, true);
      const double most = options_.budget + share * room;
      if (most > 1e18) continue;
      if (starts.Fit(static_cast<int64_t>(most), rest, progress, &draft)) {
        Try(Offload(std::move(draft)));
      }
    }
  }

  void Bound() {
    const Progress progress = UntilDeadline(0.15);
    int looked_at = 0;
    const auto stop = [&] {
      const bool enough = !options_.bounds && looked_at++ > 0;
      return Done() || enough || progress() >= 1;
    };
    bound_ = BoundOverhead(graph_, options_.budget, options_.offload, stop);
    if (bound_.instant >= 0) bound_instants_ = {bound_.instant};
  }

  // Reserves the time that the sequences will need, if the present state does
  // not change.
  void ReserveForSequences() {
    const absl::Duration all = options_.deadline - begin_;
    if (all == absl::InfiniteDuration()) return;
    if (!search_.has_best() || GapIsWide()) {
      search_deadline_ -= all * SequenceShare(graph_);
    }
  }

  // Where evaluations are counted, steps of the ascent are, and the clock only
  // ends the work.
  void BoundSequences() {
    const Progress clock = UntilDeadline(1);
    int64_t asked = 0;
    const Progress progress = [&] {
      const double now = clock();
      if (options_.evaluations == 0 || now >= 1) return now;
      return static_cast<double>(asked++) / options_.evaluations;
    };
    const SequenceBound more =
        BoundOverSequences(graph_, options_.budget, options_.offload, bound_,
                           search_.best_overhead(), progress);
    bound_.overhead = more.overhead;
    bound_instants_ = more.instants;
  }

  // A short run from each of the best starts, then two long ones from the best:
  // one that roams, one that settles. The rest is for windows, where nothing is
  // moved.
  void Improve() {
    constexpr size_t kStarts = 3;
    constexpr double kSettle = 0.4;
    const double roam = options_.offload ? 0.6 : 0.5;
    std::optional<Draft> best;
    double best_rank = 0;
    for (size_t k = 0; k < std::min(kStarts, starts_.size()); ++k) {
      search_.Load(starts_[k].draft);
      search_.Anneal(Part(0.06), Search::kRoaming);
      const double over = std::max<double>(0, search_.peak() - options_.budget);
      const double rank = search_.overhead() +
                          BaseTime(*graph_.profile) * over / options_.budget;
      if (!best.has_value() || rank < best_rank) {
        best = search_.draft();
        best_rank = rank;
      }
    }
    if (search_.has_best() && search_.best_overhead() <= best_rank) {
      best = search_.best();
    }
    if (!best.has_value()) return;
    search_.Load(*best);
    const Progress all = Part(1);
    search_.Anneal([&] { return all() / roam; }, Search::kRoaming);
    NoteLeast();
    // In little time the search may not come as far.
    if (options_.rebuild && !IsNearGood()) TryDemand();
    const bool settle = search_.has_best();
    if (settle) search_.Load(search_.best());
    const double share = settle ? kSettle : 1 - roam;
    search_.Anneal([&] { return std::max(0.0, all() - roam) / share; },
                   settle ? Search::kSettling : Search::kRoaming);
    search_.Reoptimise(all);
    NoteLeast();
  }

  struct Start {
    double rank;
    Draft draft;
  };

  const Graph& graph_;
  const GraphPlanOptions options_;
  Search search_;
  Evaluator evaluator_;
  Evaluation evaluation_;
  std::vector<Start> starts_;
  bool has_tried_demand_ = false;
  const absl::Time begin_ = absl::Now();
  absl::Time search_deadline_;
  OverheadBound bound_;
  std::vector<int> bound_instants_;
  int64_t least_peak_ = kNoPeak;
  std::optional<Draft> least_;
};

}  // namespace

GraphPlan SolveGraph(const Graph& graph, const GraphPlanOptions& options) {
  return Solver(graph, options).Run();
}

Draft SolveFloor(const Graph& graph, const GraphPlanOptions& options,
                 int64_t* peak) {
  Evaluator evaluator(graph);
  Evaluation result;
  Draft best = KeepAll(graph, options.offload);
  *peak = kNoPeak;
  const auto consider = [&](Draft draft) {
    if (options.offload) {
      HostBudget room(graph);
      for (int v = 0; v < graph.values; ++v) draft.offloaded[v] = room.Take(v);
    }
    evaluator.Evaluate(draft, &result);
    if (result.broken || result.peak >= *peak) return;
    *peak = result.peak;
    best = std::move(draft);
  };
  consider(best);
  CutStarts starts(graph, options.offload);
  for (CutStarts::Rest rest : CutStarts::kRests) {
    consider(starts.Fewest(rest));
  }
  // Ask for less and less, in smaller steps once that fails.
  for (double step : {0.03, 0.01, 0.003, 0.001}) {
    while (absl::Now() < options.deadline) {
      const int64_t target =
          *peak - std::max<int64_t>(1, static_cast<int64_t>(*peak * step));
      if (target <= 0) return best;
      Search search(graph, target, options.rebuild, options.seed, best);
      const Share part(options, 0.25, &search);
      const int64_t most = 4000;
      search.Anneal(
          [&] {
            if (search.has_best() || search.evaluations() > most) return 1.0;
            return part.Done();
          },
          Search::kRoaming);
      if (!search.has_best()) break;
      best = search.best();
      evaluator.Evaluate(best, &result);
      *peak = result.peak;
    }
  }
  return best;
}

}  // namespace ebbtide
