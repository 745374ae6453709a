#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace ebbtide {

Search::Search(const Graph& graph, int64_t budget, bool rebuild, uint64_t seed,
               const Draft& draft)
    : graph_(graph),
      rebuild_(rebuild),
      budget_(budget),
      rng_(seed),
      state_(graph, budget),
      kind_(graph.values),
      best_(draft) {
  std::map<std::pair<std::string, int64_t>, int> index;
  std::vector<char> matters(graph.values, 0);
  for (int v = graph.values - 1; v >= 0; --v) {
    matters[v] = matters[v] || !graph.needed_by[v].empty();
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
    if (matters[v] && graph.movable[v]) offloaders_.push_back(v);
  }
  Load(draft);
}

void Search::Load(const Draft& draft) {
  if (best_is_now_) {
    best_ = best();
    best_is_now_ = false;
    since_.clear();
  }
  state_.Load(draft);
  state_.ResetWeights();
  ++evaluations_;
  now_ = Present();
  NoteBest();
}

Draft Search::best() const {
  if (!best_is_now_) return best_;
  Draft draft = state_.draft();
  for (auto old = since_.rbegin(); old != since_.rend(); ++old) {
    draft.bits.row(old->value) = old->row;
    if (!draft.offloaded.empty()) draft.offloaded[old->value] = old->offloaded;
  }
  return draft;
}

Search::Score Search::Present() {
  return {state_.rebuild_time() + state_.Stall(), state_.over()};
}

void Search::NoteBest() {
  if (now_.over > 0 || (has_best_ && now_.overhead >= best_overhead_)) return;
  has_best_ = true;
  best_overhead_ = now_.overhead;
  best_is_now_ = true;
  since_.clear();
}

void Search::Accept(const Score& score) {
  if (best_is_now_) {
    const auto& changes = state_.changes();
    since_.insert(since_.end(), changes.begin(), changes.end());
  }
  state_.Commit();
  now_ = score;
  NoteBest();
  // A list longer than the draft is dearer than the draft.
  if (best_is_now_ && since_.size() > static_cast<size_t>(graph_.values)) {
    best_ = best();
    best_is_now_ = false;
    since_.clear();
  }
}

void Search::Refill(const Progress& progress) {
  for (int round = 0; round < 2 && fits(); ++round) {
    std::vector<double> saves(graph_.values, 0);
    for (int t = 0; t < graph_.stages; ++t) {
      for (int i : state_.work(t).rebuilt) {
        for (int v : graph_.outputs[i]) saves[v] += graph_.time[i];
      }
    }
    std::vector<std::pair<double, int>> order;
    for (int v : movers_) {
      if (saves[v] <= 0 || !graph_.keepable[v]) continue;
      order.push_back({-saves[v] / (graph_.bytes[v] + 1.0), v});
    }
    std::sort(order.begin(), order.end());
    for (const auto& [worth, v] : order) {
      if (progress() >= 1) return;
      Treat(v, Treatment::kKeep);
      state_.Update();
      ++evaluations_;
      const Score next = Present();
      if (next.over <= 0 && next.overhead <= now_.overhead) {
        Accept(next);
      } else {
        state_.Revert();
      }
    }
  }
}

// Most moves are turned down, most of them by a bound on their score.
void Search::Decide(double price, double temperature) {
  ++evaluations_;
  const double coin = static_cast<double>(rng_() >> 11) * 0x1p-53;
  const auto takes = [&](const Score& next) {
    const double change =
        next.overhead - now_.overhead + price * (next.over - now_.over);
    return change <= 0 || coin < std::exp(-change / temperature);
  };
  state_.UpdateTime();
  if (!takes({state_.rebuild_time(), 0})) return state_.Revert();
  state_.UpdateHeld();
  if (!takes({state_.rebuild_time(), state_.least_over()})) {
    return state_.Revert();
  }
  state_.UpdatePeaks();
  const Score next = Present();
  if (!takes(next)) return state_.Revert();
  Accept(next);
}

// The other constants were chosen by measurement.
void Search::Anneal(const Progress& progress, int patience) {
  constexpr int kMany = 100000;
  constexpr int kImpatience = 40;  // above the budget
  if (movers_.empty() && offloaders_.empty()) return;
  const Time base = std::max(1e-9, BaseTime(*graph_.profile));
  const double hottest = std::clamp(0.25 / std::max(1, graph_.ops), 3e-4, 0.02);
  const Time reference = std::clamp(now_.overhead, 0.01 * base, base);
  double price = reference / budget_;
  const double most_price = 10 * base / budget_;
  double temperature = hottest * reference;
  int idle = 0;    // moves in a row that changed nothing
  int steady = 0;  // iterations on one side of the budget; negative: above it
  for (int64_t k = 1;; ++k) {
    // Moves of plans that recompute very much take milliseconds.
    if (k % 32 == 0 || state_.rebuilt() > kMany) {
      const double done = progress();
      if (done >= 1) return;
      const Time scale =
          std::max(has_best_ ? best_overhead_ : reference, 1e-6 * base);
      temperature = scale * hottest * std::pow(0.05, done);
    }
    // Violated stages grow dearer, so that a plan stuck a little above the
    // budget at one stage finds its way out through another.
    if (k % 256 == 0 && now_.over > 0) {
      state_.Reweigh(1.3, 0.95, 1e6);
      now_.over = state_.over();
    }
    if (!Move()) {
      if (++idle >= 10000) return;
      continue;
    }
    idle = 0;
    Decide(price, temperature);
    steady = now_.over > 0 ? std::min(steady, 0) - 1 : std::max(steady, 0) + 1;
    if (steady == -kImpatience) {
      price = std::min(price * 1.15, most_price);
      steady = 0;
    } else if (steady == patience) {
      price *= 0.87;
      steady = 0;
    }
  }
}

}  // namespace ebbtide
