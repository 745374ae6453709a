#include "planner/sequence_bound.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "planner/branch_bound.h"
#include "planner/instant.h"
#include "planner/sequence_ascent.h"

namespace ebbtide {
namespace {

// Shares of the time, and steps of the ascent per pair, by round: many pairs
// for a look, fewer and fewer for longer.
struct Round {
  size_t pairs;
  int steps;
  double until;
};
constexpr Round kRounds[] = {{24, 60, 0.4}, {8, 150, 0.43}, {3, 500, 0.45}};
constexpr double kOneUntil = 0.15;
constexpr double kLookUntil = 0.35;
constexpr double kGain = 1.0005;  // less is not worth a look
// More instants, then decisions, for the best sequence, the next, and the
// third.
constexpr double kLengthenUntil[] = {0.55, 0.92, 0.96};
constexpr double kBranchUntil[] = {0.9, 0.95, 1};

class SequenceSearch {
 public:
  SequenceSearch(const Graph& graph, int64_t budget, bool offload,
                 const OverheadBound& one, Time upper, const Progress& progress)
      : graph_(graph),
        budget_(budget),
        offload_(offload),
        host_(graph, offload),
        upper_(upper),
        progress_(progress) {
    bound_.overhead = std::min(one.overhead, upper);
    bound_.unbranched = bound_.overhead;
    if (one.instant >= 0) bound_.instants = {one.instant};
    for (const InstantBound& a : one.instants) {
      if (a.instant >= graph.ops) stages_.push_back(a);
    }
    std::stable_sort(stages_.begin(), stages_.end(),
                     [](const InstantBound& a, const InstantBound& b) {
                       return a.overhead > b.overhead;
                     });
  }

  SequenceBound Run() {
    if (stages_.empty()) return bound_;
    Sequence one{.instants = {stages_[0].instant}};
    one.start.prices.memory = {{stages_[0].price}};
    one = Lengthen(std::move(one), kOneUntil);
    ListPairs();
    Look();
    for (const Round& round : kRounds) Climb(round);
    one.rank = one.start.bound;
    sequences_.push_back(std::move(one));
    Sort();
    for (size_t k = 0; k < std::min(sequences_.size(), kSequences); ++k) {
      if (Closed() || progress_() >= kBranchUntil[k]) break;
      Branch(Lengthen(sequences_[k], kLengthenUntil[k]), kBranchUntil[k]);
    }
    return bound_;
  }

 private:
  struct Sequence {
    std::vector<int> instants;
    SequenceAscent start;  // from the prices of its instants
    double rank = 0;       // its expected, then its actual bound
  };

  static constexpr size_t kReruns = 24;  // reruns for a pair
  static constexpr size_t kSequences = std::size(kBranchUntil);
  static constexpr size_t kMostInstants = 4;  // before branching
  static constexpr int kTrySteps = 25;
  static constexpr int kLongSteps = 400;

  bool Closed() const { return bound_.overhead >= upper_; }
  int LookSteps() const { return graph_.ops > 200 ? 15 : 25; }

  // All pairs whose two bounds together reach the bound so far: without
  // branching they seldom give more than that sum.
  void ListPairs() {
    for (const InstantBound& a : stages_) {
      for (const InstantBound& b : stages_) {
        if (a.instant >= b.instant) continue;
        const Time sum = a.overhead + b.overhead;
        if (sum < bound_.overhead) continue;
        Sequence pair{.instants = {a.instant, b.instant}, .rank = sum};
        pair.start.prices.memory = {{a.price}, {b.price}};
        if (b.instant == a.instant + 1 && !offload_) ListReruns(pair);
        sequences_.push_back(std::move(pair));
      }
    }
    Sort();
  }

  // In place of the second instant, an op that is recomputed right before it:
  // those with most in memory, of equal ones the last.
  void ListReruns(const Sequence& pair) {
    if (std::max(graph_.ops, graph_.stages) > kMostOpsOfReruns) return;
    const int t = pair.instants[1] - graph_.ops;
    const int64_t fixed = AtStage(graph_, t, t).fixed;
    std::vector<std::pair<int64_t, Sequence>> reruns;
    for (int op : ForcedReruns(graph_, t - 1, budget_)) {
      Sequence rerun = pair;
      rerun.instants[1] = RerunOf(graph_, op, t);
      const int64_t more = AtRerun(graph_, op, t, t).fixed - fixed;
      rerun.rank += pair.start.prices.memory[1][0] * std::max<int64_t>(0, more);
      reruns.push_back({more, std::move(rerun)});
    }
    const auto last = reruns.begin() + std::min(reruns.size(), kReruns);
    std::partial_sort(reruns.begin(), last, reruns.end(),
                      [](const auto& a, const auto& b) {
                        return std::pair(a.first, a.second.instants[1]) >
                               std::pair(b.first, b.second.instants[1]);
                      });
    for (auto it = reruns.begin(); it != last; ++it) {
      sequences_.push_back(std::move(it->second));
    }
  }

  void Sort() {
    std::stable_sort(
        sequences_.begin(), sequences_.end(),
        [](const Sequence& a, const Sequence& b) { return a.rank > b.rank; });
  }

  void Note(const std::vector<int>& instants, Time bound) {
    if (bound <= bound_.overhead) return;
    bound_.overhead = std::min(bound, upper_);
    bound_.instants = instants;
  }

  std::function<bool()> Past(double until) const {
    return [this, until] { return progress_() >= until; };
  }

  // Up from `ascent`, which stays where no plan is within the budget.
  void Ascend(const std::vector<int>& instants, int steps, double until,
              SequenceAscent* ascent) {
    SequenceProblem problem(graph_, budget_, host_, instants);
    if (problem.Decide({})) {
      problem.Ascend(steps, upper_, Past(until), ascent);
    }
    Note(instants, ascent->bound);
    bound_.unbranched = std::max(bound_.unbranched, ascent->bound);
  }

  void Ascend(Sequence& pair, int steps, double until) {
    SequenceAscent ascent = pair.start;
    Ascend(pair.instants, steps, until, &ascent);
    pair.rank = ascent.bound;
  }

  void Look() {
    size_t looked = 0;
    for (; looked < sequences_.size() && !Closed(); ++looked) {
      if (sequences_[looked].rank <= bound_.overhead * kGain) break;
      if (progress_() >= kLookUntil) break;
      Ascend(sequences_[looked], LookSteps(), kLookUntil);
    }
    sequences_.resize(
        std::min(sequences_.size(), std::max(looked, kSequences)));
  }

  void Climb(const Round& round) {
    Sort();
    if (sequences_.size() > round.pairs) sequences_.resize(round.pairs);
    for (Sequence& pair : sequences_) {
      if (Closed() || progress_() >= round.until) return;
      const double before = pair.rank;
      Ascend(pair, round.steps, round.until);
      pair.rank = std::max(pair.rank, before);
    }
  }

  // With more stages, one by one, as long as that gives more.
  Sequence Lengthen(Sequence sequence, double until) {
    Ascend(sequence.instants, kLongSteps, until, &sequence.start);
    while (sequence.instants.size() < kMostInstants) {
      Sequence best = sequence;
      for (const InstantBound& stage : stages_) {
        if (Closed() || progress_() >= until) break;
        Sequence longer = sequence;
        longer.instants = WithInstant(graph_, sequence.instants, stage.instant);
        if (longer.instants.empty()) continue;
        longer.start.prices = PricesFor(sequence.start.prices,
                                        sequence.instants, longer.instants);
        Ascend(longer.instants, kTrySteps, until, &longer.start);
        if (longer.start.bound > best.start.bound) best = std::move(longer);
      }
      if (best.start.bound <= sequence.start.bound * kGain) break;
      sequence = std::move(best);
      Ascend(sequence.instants, kLongSteps, until, &sequence.start);
    }
    return sequence;
  }

  void Branch(const Sequence& root, double until) {
    BranchOptions options{
        .budget = budget_, .upper = upper_, .stop = Past(until)};
    for (const InstantBound& stage : stages_) {
      options.candidates.push_back(stage.instant);
    }
    const BranchResult result =
        BranchAndBound(graph_, host_, root.instants, root.start, options);
    bound_.nodes += result.nodes;
    Note(result.instants, result.bound);
  }

  const Graph& graph_;
  const int64_t budget_;
  const bool offload_;
  const HostRooms host_;
  const Time upper_;
  const Progress& progress_;
  std::vector<InstantBound> stages_;  // by their bounds, the best first
  std::vector<Sequence> sequences_;
  SequenceBound bound_;
};

}  // namespace

SequenceBound BoundOverSequences(const Graph& graph, int64_t budget,
                                 bool offload, const OverheadBound& one,
                                 Time upper, const Progress& progress) {
  return SequenceSearch(graph, budget, offload, one, upper, progress).Run();
}

}  // namespace ebbtide
