#include "planner/cycle_greedy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

class Chooser {
 public:
  Chooser(const Cycle& cycle, Bytes budget, const GreedyOptions& options,
          CyclePlan plan)
      : c_(cycle), options_(options), plan_(std::move(plan)) {
    for (Bytes live : LeastLive(cycle, plan_)) over_.push_back(live - budget);
    gaps_of_.resize(cycle.items.size());
    for (size_t g = 0; g < cycle.gaps.size(); ++g) {
      gaps_of_[cycle.gaps[g].item].push_back(static_cast<int>(g));
    }
    // A state that the host works on is offloaded already.
    for (size_t u = 0; u < cycle.updates.size(); ++u) {
      const int state = cycle.updates[u].state;
      if (plan_.on_host[u] && state >= 0) gaps_of_[state].clear();
    }
  }

  std::optional<CyclePlan> Run() {
    while (*std::max_element(over_.begin(), over_.end()) > Bytes{}) {
      best_ = 0;
      chosen_.clear();
      for (const std::vector<int>& gaps : gaps_of_) Offer(gaps);
      if (chosen_.empty()) return std::nullopt;
      for (int g : chosen_) Take(g);
    }
    return plan_;
  }

 private:
  void Offer(const std::vector<int>& gaps) {
    std::vector<int> left;
    for (int g : gaps) {
      if (!plan_.away[g]) left.push_back(g);
    }
    const bool leaves = left.size() < gaps.size();
    if (options_.once && leaves) return;
    const bool single = !options_.once && !leaves && left.size() > 1;
    for (int g : left) {
      Propose({g}, single ? options_.single * Covered(g) : Covered(g));
    }
    if (!single) return;
    double sum = 0;
    for (int g : left) sum += Covered(g);
    Propose(left, sum);
  }

  void Propose(std::vector<int> gaps, double covered) {
    if (covered <= best_) return;
    best_ = covered;
    chosen_ = std::move(gaps);
  }

  double Covered(int g) const {
    double sum = 0;
    const CycleGap& gap = c_.gaps[g];
    const Bytes bytes = c_.items[gap.item].bytes;
    for (int k = gap.after + 1; k < gap.before; ++k) {
      const Bytes over = std::max(Bytes{}, over_[k % c_.Ops()]);
      sum += static_cast<double>(Count(std::min(over, bytes)));
    }
    return sum;
  }

  void Take(int g) {
    const CycleGap& gap = c_.gaps[g];
    plan_.away[g] = true;
    for (int k = gap.after + 1; k < gap.before; ++k) {
      over_[k % c_.Ops()] -= c_.items[gap.item].bytes;
    }
  }

  const Cycle& c_;
  const GreedyOptions options_;
  CyclePlan plan_;
  std::vector<Bytes> over_;  // by op
  std::vector<std::vector<int>> gaps_of_;
  double best_ = 0;
  std::vector<int> chosen_;
};

}  // namespace

std::optional<CyclePlan> ChooseGreedily(const Cycle& cycle, Bytes budget,
                                        const GreedyOptions& options,
                                        CyclePlan plan) {
  return Chooser(cycle, budget, options, std::move(plan)).Run();
}

}  // namespace ebbtide
