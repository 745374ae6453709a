#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace ebbtide {

Search::Search(const Graph& graph, int64_t budget, bool rebuild, uint64_t seed,
               Draft draft)
    : graph_(graph),
      budget_(budget),
      rebuild_(rebuild),
      rng_(seed),
      draft_(draft),
      evaluator_(graph),
      lanes_(graph, budget),
      weight_(graph.stages, 1),
      kind_(graph.values),
      direct_(graph.values),
      events_(graph.values),
      best_(std::move(draft)) {
  for (int t = 0; t < graph.stages; ++t) {
    for (int v : graph.needs[t]) direct_[v].push_back(t);
  }
  std::map<std::pair<std::string, int64_t>, int> index;
  std::vector<char> matters(graph.values, 0);
  for (int v = graph.values - 1; v >= 0; --v) {
    matters[v] = matters[v] || !direct_[v].empty();
    if (!matters[v] || !graph.replayable[graph.op[v]]) continue;
    for (int u : graph.inputs[graph.op[v]]) matters[u] = 1;
  }
  for (int v = 0; v < graph.values; ++v) {
    const auto key =
        std::pair(graph.profile->ops[graph.op[v]].name, graph.bytes[v]);
    kind_[v] =
        index.try_emplace(key, static_cast<int>(index.size())).first->second;
    kinds_.resize(index.size());
    kinds_[kind_[v]].push_back(v);
    if (matters[v] && !graph.pinned[v]) movers_.push_back(v);
    if (matters[v] && graph.movable[v] && graph.held[v] < 0) {
      offloaders_.push_back(v);
    }
  }
  Load(draft_);
}

void Search::Load(const Draft& draft) {
  draft_ = draft;
  for (int v = 0; v < graph_.values; ++v) {
    if (graph_.pinned[v]) draft_.bits.SetRow(v, 1);
  }
  std::fill(weight_.begin(), weight_.end(), 1);
  undo_.clear();
  events_stale_ = true;
  Evaluate(&now_, &now_overhead_, &now_over_);
  NoteBest();
}

void Search::Evaluate(Evaluation* result, Time* overhead, double* over) {
  evaluator_.Evaluate(draft_.bits, draft_.offloaded, result);
  *overhead = result->overhead;
  *over = 0;
  int64_t forward = 0;
  for (int64_t peak : result->forward_peak) forward = std::max(forward, peak);
  // The whole forward pass counts like three stages.
  if (forward > budget_) *over += 3.0 * (forward - budget_);
  for (int t = 0; t < graph_.stages; ++t) {
    const int64_t excess = result->stage_peak[t] - budget_;
    if (excess > 0) *over += weight_[t] * excess;
  }
  if (result->broken) *over += 1e3 * budget_;
  *over += 3.0 * HostExcess(graph_, *result);
  if (!draft_.offloaded.empty() && !result->broken) {
    *overhead += lanes_.Stall(*result);
  }
}

void Search::NoteBest() {
  if (now_over_ > 0 || (has_best_ && now_overhead_ >= best_overhead_)) return;
  has_best_ = true;
  best_overhead_ = now_overhead_;
  best_ = draft_;
}

void Search::Accept() {
  std::swap(now_, next_);
  now_overhead_ = next_overhead_;
  now_over_ = next_over_;
  undo_.clear();
  events_stale_ = true;
  NoteBest();
}

void Search::Refill(const Progress& progress) {
  for (int round = 0; round < 2 && now_over_ <= 0; ++round) {
    std::vector<double> saves(graph_.values, 0);
    for (int i : now_.rebuilt) {
      for (int v : graph_.outputs[i]) saves[v] += graph_.time[i];
    }
    std::vector<std::pair<double, int>> order;
    for (int v : movers_) {
      if (saves[v] <= 0 || !graph_.keepable[v]) continue;
      order.push_back({-saves[v] / (graph_.bytes[v] + 1.0), v});
    }
    std::sort(order.begin(), order.end());
    for (const auto& [worth, v] : order) {
      if (progress() >= 1) return;
      undo_.clear();
      SetRow(v, Row::kKeep);
      Evaluate(&next_, &next_overhead_, &next_over_);
      if (next_over_ <= 0 && next_overhead_ <= now_overhead_) {
        Accept();
      } else {
        Revert();
      }
    }
  }
}

// Violated stages grow dearer, so that a plan stuck a little above the budget
// at one stage finds its way out through another.
void Search::AdaptWeights() {
  for (int t = 0; t < graph_.stages; ++t) {
    weight_[t] = now_.stage_peak[t] > budget_
                     ? std::min(1e6, weight_[t] * 1.3)
                     : std::max(1.0, weight_[t] * 0.95);
  }
  Evaluate(&now_, &now_overhead_, &now_over_);
}

// The constants are those that planner-research 2, section 2 measured.
void Search::Anneal(const Progress& progress) {
  if (movers_.empty() && offloaders_.empty()) return;
  const Time base = std::max(1e-9, BaseTime(*graph_.profile));
  const double hottest = std::clamp(0.25 / std::max(1, graph_.ops), 3e-4, 0.02);
  const Time reference = std::clamp(now_overhead_, 0.01 * base, base);
  double price = reference / budget_;
  const double most_price = 10 * base / budget_;
  double temperature = hottest * reference;
  int idle = 0;    // moves in a row that changed nothing
  int steady = 0;  // iterations on one side of the budget; negative: above it
  for (int64_t k = 1;; ++k) {
    if (k % 32 == 0) {
      const double done = progress();
      if (done >= 1) return;
      const Time scale =
          std::max(has_best_ ? best_overhead_ : reference, 1e-6 * base);
      temperature = scale * hottest * std::pow(0.05, done);
    }
    if (k % 256 == 0 && now_over_ > 0) AdaptWeights();
    if (!Move()) {
      if (++idle >= 10000) return;
      continue;
    }
    idle = 0;
    Evaluate(&next_, &next_overhead_, &next_over_);
    const double change =
        next_overhead_ - now_overhead_ + price * (next_over_ - now_over_);
    const double coin = static_cast<double>(rng_() >> 11) * 0x1p-53;
    if (change <= 0 || coin < std::exp(-change / temperature)) {
      Accept();
    } else {
      Revert();
    }
    steady = now_over_ > 0 ? std::min(steady, 0) - 1 : std::max(steady, 0) + 1;
    if (steady == -40) price = std::min(price * 1.15, most_price);
    if (steady == 40) price *= 0.87;
    if (std::abs(steady) >= 40) steady = 0;
  }
}

}  // namespace ebbtide
