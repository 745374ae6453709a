#include "planner/lanes.h"

#include <algorithm>
#include <limits>

namespace ebbtide {

Traffic TrafficOf(const Evaluation& evaluation) {
  return {evaluation.forward_peak, evaluation.stage_peak,
          evaluation.rebuild_time, evaluation.overhead, evaluation.moved};
}

Lanes::Lanes(const Graph& graph, int64_t budget)
    : graph_(graph),
      budget_(budget),
      profile_(*graph.profile),
      off_end_(graph.values, 0),
      back_end_(graph.values, 0),
      early_(graph.stages, 0),
      start_(graph.stages + 1, 0),
      restore_before_(graph.stages) {}

Time Lanes::Stall(const Traffic& traffic) {
  clock_ = d2h_ = h2d_ = 0;
  leaving_bytes_ = 0;
  leaving_.clear();
  queue_.assign(traffic.moved.begin(), traffic.moved.end());
  std::fill(early_.begin(), early_.end(), 0);
  for (auto& list : restore_before_) list.clear();
  if (queue_.empty()) return 0;
  Forward(traffic);
  Queue(traffic);
  Backward(traffic);
  return std::max(0.0, clock_ - BaseTime(profile_) - traffic.overhead);
}

// Waits until `live` bytes and the running offloads fit, if they can.
void Lanes::WaitFor(int64_t live) {
  while (!leaving_.empty() &&
         (leaving_.front().end <= clock_ || live + leaving_bytes_ > budget_)) {
    clock_ = std::max(clock_, leaving_.front().end);
    leaving_bytes_ -= leaving_.front().bytes;
    leaving_.pop_front();
  }
}

void Lanes::Forward(const Traffic& traffic) {
  size_t next = 0;
  for (int i = 0; i < graph_.ops; ++i) {
    WaitFor(traffic.forward_peak[i]);
    clock_ += graph_.time[i];
    for (; next < queue_.size(); ++next) {
      const int v = queue_[next].value;
      if (profile_.values[v].released > i) break;
      d2h_ = std::max(clock_, d2h_) +
             static_cast<double>(graph_.bytes[v]) / profile_.d2h;
      off_end_[v] = d2h_;
      leaving_.push_back({d2h_, graph_.bytes[v]});
      leaving_bytes_ += graph_.bytes[v];
    }
  }
}

Time Lanes::StageTime(int t, const Traffic& traffic) const {
  return profile_.stages[t].time + traffic.rebuild_time[t];
}

// The order of the restores, and the best start of each: the sweep runs from
// the last one to the first.
void Lanes::Queue(const Traffic& traffic) {
  std::stable_sort(queue_.begin(), queue_.end(),
                   [](const Transfer& a, const Transfer& b) {
                     return a.first_use < b.first_use;
                   });
  start_[0] = clock_;
  for (int t = 0; t < graph_.stages; ++t) {
    start_[t + 1] = start_[t] + StageTime(t, traffic);
  }
  wanted_.resize(queue_.size());
  Time begin = std::numeric_limits<Time>::infinity();
  for (size_t k = queue_.size(); k-- > 0;) {
    const Transfer& move = queue_[k];
    const Time end = std::min(begin, start_[move.first_use]);
    begin = end - static_cast<double>(graph_.bytes[move.value]) / profile_.h2d;
    const auto after = std::upper_bound(
        start_.begin(), start_.begin() + move.first_use + 1, begin);
    wanted_[k] = std::max<int>(0, after - start_.begin() - 1);
  }
}

// True if the value may come back before stage t already.
bool Lanes::Fits(const Transfer& move, int t, const Traffic& traffic) const {
  const int v = move.value;
  // A copy that still runs the other way would be counted twice.
  if (off_end_[v] > clock_) return false;
  for (int u = t; u < move.first_use; ++u) {
    int64_t live = traffic.stage_peak[u] + early_[u] + graph_.bytes[v];
    if (u == t) live += leaving_bytes_;
    if (live > budget_) return false;
  }
  return true;
}

void Lanes::Restore(const Transfer& move, int t) {
  const int v = move.value;
  h2d_ = std::max({clock_, h2d_, off_end_[v]}) +
         static_cast<double>(graph_.bytes[v]) / profile_.h2d;
  back_end_[v] = h2d_;
  restore_before_[t].push_back(v);
  for (int u = t; u < move.first_use; ++u) early_[u] += graph_.bytes[v];
}

void Lanes::Backward(const Traffic& traffic) {
  size_t next = 0;
  size_t used = 0;
  for (int t = 0; t < graph_.stages; ++t) {
    while (!leaving_.empty() && leaving_.front().end <= clock_) {
      leaving_bytes_ -= leaving_.front().bytes;
      leaving_.pop_front();
    }
    for (; next < queue_.size(); ++next) {
      const Transfer& move = queue_[next];
      const bool due = move.first_use <= t;
      if (due) WaitFor(traffic.stage_peak[t] + early_[t]);
      if (!due && (wanted_[next] > t || !Fits(move, t, traffic))) break;
      Restore(move, t);
    }
    for (; used < next && queue_[used].first_use <= t; ++used) {
      clock_ = std::max(clock_, back_end_[queue_[used].value]);
    }
    WaitFor(traffic.stage_peak[t] + early_[t]);
    clock_ += StageTime(t, traffic);
  }
}

}  // namespace ebbtide
