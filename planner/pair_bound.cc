#include "planner/pair_bound.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "planner/branch_bound.h"
#include "planner/instant.h"
#include "planner/pair_ascent.h"

namespace ebbtide {
namespace {

// Shares of the time, and steps of the ascent per pair, by round: many pairs
// for a look, fewer and fewer for longer (planner-research 2, section 3).
struct Round {
  size_t pairs;
  int steps;
  double until;
};
constexpr Round kRounds[] = {{24, 60, 0.5}, {8, 150, 0.55}, {3, 500, 0.6}};
constexpr double kLookUntil = 0.45;
constexpr double kGain = 1.0005;  // less is not worth a look
constexpr double kBranchUntil[] = {0.9, 0.95, 1};

struct Pair {
  int first = 0;
  int second = 0;
  PairAscent start;  // from the prices of its instants
  double rank = 0;   // what it may give, then what it gave
};

class PairSearch {
 public:
  PairSearch(const Graph& graph, int64_t budget, bool offload,
             const OverheadBound& one, Time upper, const Progress& progress)
      : graph_(graph),
        budget_(budget),
        offload_(offload),
        host_(graph, offload),
        upper_(upper),
        progress_(progress) {
    bound_.overhead = std::min(one.overhead, upper);
    bound_.pairs = bound_.overhead;
    bound_.first = one.instant;
  }

  PairBound Run(const std::vector<InstantBound>& instants) {
    List(instants);
    Look();
    for (const Round& round : kRounds) Lengthen(round);
    bound_.pairs = bound_.overhead;
    Branch();
    return bound_;
  }

 private:
  bool Closed() const { return bound_.overhead >= upper_; }

  // All pairs whose two bounds together reach the bound so far: without
  // branching they seldom give more than that sum.
  void List(const std::vector<InstantBound>& instants) {
    for (const InstantBound& a : instants) {
      for (const InstantBound& b : instants) {
        if (a.instant < graph_.ops || a.instant >= b.instant) continue;
        const Time sum = a.overhead + b.overhead;
        if (sum < bound_.overhead) continue;
        Pair pair{.first = a.instant, .second = b.instant, .rank = sum};
        pair.start.prices.per_byte[0] = a.price;
        pair.start.prices.per_byte[1] = b.price;
        if (b.instant == a.instant + 1 && !offload_) ListReruns(pair);
        pairs_.push_back(std::move(pair));
      }
    }
    Sort();
  }

  // In place of the second instant, an op that is run again right before it:
  // those with most in memory, of equal ones the last.
  void ListReruns(const Pair& pair) {
    if (std::max(graph_.ops, graph_.stages) > kMostOpsOfReruns) return;
    const int t = pair.second - graph_.ops;
    const int64_t fixed = AtStage(graph_, t, t).fixed;
    std::vector<std::pair<int64_t, Pair>> reruns;
    for (int op : ForcedReruns(graph_, t - 1, budget_)) {
      Pair rerun = pair;
      rerun.second = RerunOf(graph_, op, t);
      const int64_t more = AtRerun(graph_, op, t).fixed - fixed;
      rerun.rank += pair.start.prices.per_byte[1] * std::max<int64_t>(0, more);
      reruns.push_back({more, std::move(rerun)});
    }
    const auto last = reruns.begin() + std::min(reruns.size(), kReruns);
    std::partial_sort(reruns.begin(), last, reruns.end(),
                      [](const auto& a, const auto& b) {
                        return std::pair(a.first, a.second.second) >
                               std::pair(b.first, b.second.second);
                      });
    for (auto it = reruns.begin(); it != last; ++it) {
      pairs_.push_back(std::move(it->second));
    }
  }

  void Sort() {
    std::stable_sort(
        pairs_.begin(), pairs_.end(),
        [](const Pair& a, const Pair& b) { return a.rank > b.rank; });
  }

  void Note(const Pair& pair, Time bound) {
    if (bound <= bound_.overhead) return;
    bound_.overhead = std::min(bound, upper_);
    bound_.first = pair.first;
    bound_.second = pair.second;
  }

  std::function<bool()> Past(double until) const {
    return [this, until] { return progress_() >= until; };
  }

  void Ascend(Pair& pair, int steps, double until) {
    PairProblem problem(graph_, budget_, host_, pair.first, pair.second);
    PairAscent ascent = pair.start;
    if (problem.Decide({})) {
      problem.Ascend(steps, upper_, Past(until), &ascent);
    }
    pair.rank = ascent.bound;
    Note(pair, ascent.bound);
  }

  void Look() {
    const int steps = graph_.ops > 200 ? 15 : 25;
    size_t looked = 0;
    for (; looked < pairs_.size() && !Closed(); ++looked) {
      if (pairs_[looked].rank <= bound_.overhead * kGain) break;
      if (progress_() >= kLookUntil) break;
      Ascend(pairs_[looked], steps, kLookUntil);
    }
    pairs_.resize(std::min(pairs_.size(), std::max(looked, kPairs)));
  }

  void Lengthen(const Round& round) {
    Sort();
    if (pairs_.size() > round.pairs) pairs_.resize(round.pairs);
    for (Pair& pair : pairs_) {
      if (Closed() || progress_() >= round.until) return;
      const double before = pair.rank;
      Ascend(pair, round.steps, round.until);
      pair.rank = std::max(pair.rank, before);
    }
  }

  void Branch() {
    Sort();
    for (size_t k = 0; k < std::min(pairs_.size(), kPairs); ++k) {
      if (Closed() || progress_() >= kBranchUntil[k]) return;
      const Pair& pair = pairs_[k];
      PairProblem problem(graph_, budget_, host_, pair.first, pair.second);
      if (!problem.Decide({})) continue;
      PairAscent root = pair.start;
      problem.Ascend(kRootSteps, upper_, Past(kBranchUntil[k]), &root);
      const BranchResult result = BranchAndBound(problem, std::move(root),
                                                 upper_, Past(kBranchUntil[k]));
      bound_.nodes += result.nodes;
      Note(pair, result.bound);
    }
  }

  static constexpr size_t kReruns = 24;  // of a pair
  static constexpr size_t kPairs = std::size(kBranchUntil);
  static constexpr int kRootSteps = 400;

  const Graph& graph_;
  const int64_t budget_;
  const bool offload_;
  const HostRooms host_;
  const Time upper_;
  const Progress& progress_;
  std::vector<Pair> pairs_;
  PairBound bound_;
};

}  // namespace

PairBound BoundOverPairs(const Graph& graph, int64_t budget, bool offload,
                         const OverheadBound& one, Time upper,
                         const Progress& progress) {
  PairSearch search(graph, budget, offload, one, upper, progress);
  return search.Run(one.instants);
}

}  // namespace ebbtide
