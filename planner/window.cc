#include "planner/window.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

constexpr double kRounding = 1 - 1e-12;
constexpr int64_t kAsk = 32;  // nodes

}  // namespace

bool Window::Solve(std::vector<Decision> decisions,
                   const std::function<bool()>& stop, PlanState* state) {
  state_ = state;
  decisions_ = std::move(decisions);
  std::stable_sort(
      decisions_.begin(), decisions_.end(),
      [](const Decision& a, const Decision& b) { return a.begin < b.begin; });
  std::vector<std::pair<int, Row>> rows;
  for (const Decision& d : decisions_) {
    rows.push_back({d.value, state->draft().bits.row(d.value)});
  }
  now_.assign(decisions_.size(), 1);
  best_.clear();
  best_overhead_ = state->rebuild_time();
  // Open decisions are held.
  for (const Decision& d : decisions_) Set(d, 1);
  MakeLevels();
  stopped_ = false;
  Explore(0, stop);
  for (size_t k = 0; k < best_.size(); ++k) Set(decisions_[k], best_[k]);
  if (!best_.empty()) return true;
  for (const auto& [v, row] : rows) state->SetRow(v, row);
  Apply();
  return false;
}

void Window::Set(const Decision& decision, char bit) {
  state_->SetBits(decision.value, decision.begin, decision.end, bit);
  Apply();
}

void Window::Apply() {
  state_->Update();
  state_->Commit();
}

// True if v can be there when stage t comes, whatever is decided.
bool Window::MayBeThere(int v, int t) const {
  if (graph_.held[v] >= t) return true;
  const auto uses = graph_.needed_by[v];
  const auto next = std::lower_bound(uses.begin(), uses.end(), t);
  int from = graph_.keepable[v] ? -1 : 0;
  if (next != uses.begin()) from = *(next - 1);
  return state_->draft().bits.row(v).Any(from, t);
}

// Ops that stage t recomputes whatever is decided.
std::vector<int> Window::Unavoidable(int t) {
  std::vector<int> ops;
  const auto use = [&](int v) {
    const int i = graph_.op[v];
    if (mark_[i] || MayBeThere(v, t)) return;
    mark_[i] = 1;
    ops.push_back(i);
  };
  for (int v : graph_.needs[t]) use(v);
  for (size_t k = 0; k < ops.size(); ++k) {
    for (int v : graph_.inputs[ops[k]]) use(v);
  }
  for (int i : ops) mark_[i] = 0;
  return ops;
}

// From the last to the first: what holds behind one holds behind those before.
void Window::MakeLevels() {
  Level level{.open = graph_.stages, .counted = std::vector<char>(graph_.ops)};
  std::vector<char> seen(graph_.values, 0);
  levels_.assign(decisions_.size() + 1, level);
  int t = graph_.stages - 1;
  for (size_t k = decisions_.size(); k-- > 0;) {
    level.open = decisions_[k].begin;
    for (; t > level.open; --t) {
      for (int i : Unavoidable(t)) {
        level.counted[i] = 1;
        level.least += graph_.time[i];
      }
      for (int v : graph_.needs[t]) {
        if (seen[v] || graph_.held[v] >= t) continue;
        seen[v] = 1;
        level.needed.push_back(v);
      }
    }
    levels_[k] = level;
  }
}

bool Window::IsThereAfter(int v, int t) const {
  if (graph_.held[v] > t) return true;
  const Events& events = state_->events(v);
  const auto next = EventFrom(events, t + 1);
  return next != events.begin() && (next - 1)->bit;
}

// Ops behind the level that are not counted there, but needed and gone.
Time Window::Missing(const Level& level) {
  Time time = 0;
  queue_.clear();
  const auto use = [&](int v) {
    const int i = graph_.op[v];
    if (mark_[i] || IsThereAfter(v, level.open)) return;
    mark_[i] = 1;
    queue_.push_back(i);
    if (!level.counted[i]) time += graph_.time[i];
  };
  for (int v : level.needed) use(v);
  for (size_t k = 0; k < queue_.size(); ++k) {
    for (int v : graph_.inputs[queue_[k]]) use(v);
  }
  for (int i : queue_) mark_[i] = 0;
  return time;
}

// Time of recomputation, whatever is decided from the k-th decision on.
Time Window::Least(size_t k) {
  const Level& level = levels_[k];
  Time time = level.least;
  for (int t = 0; t <= std::min(level.open, graph_.stages - 1); ++t) {
    time += state_->work(t).time;
  }
  return time + Missing(level);
}

// True if v is there in stage t by the decisions made, perhaps for nothing.
bool Window::Unsure(int v, int t) const {
  const auto uses = graph_.needed_by[v];
  if (!uses.empty() && uses.back() > t) return false;
  const Events& events = state_->events(v);
  const auto at = EventFrom(events, t);
  if (at == events.end()) return false;
  if (at->stage == t && at->bit) return true;
  const bool used = !uses.empty() && uses.back() == t;
  return !used && at != events.begin() && (at - 1)->bit;
}

// True if some stage in [from, to), all before the first open decision, is
// above the budget even without the values that may have no further use.
bool Window::SurelyOver(int from, int to) const {
  for (int t = std::max(0, from); t < to; ++t) {
    int64_t over = state_->stage_peak(t) - budget_;
    if (over <= 0) continue;
    for (int v = 0; v < graph_.values && over > 0; ++v) {
      if (Unsure(v, t)) over -= graph_.bytes[v];
    }
    if (over > 0) return true;
  }
  return false;
}

void Window::Explore(size_t k, const std::function<bool()>& stop) {
  stopped_ = stopped_ || (++nodes_ % kAsk == 0 && stop());
  if (stopped_) return;
  const int before = k == 0 ? -1 : decisions_[k - 1].begin;
  if (state_->peak() > budget_ && SurelyOver(before, levels_[k].open)) return;
  if (k == decisions_.size()) {
    const Time overhead = state_->rebuild_time();
    if (state_->over() > 0 || overhead >= best_overhead_) return;
    best_overhead_ = overhead;
    best_ = now_;
    return;
  }
  if (Least(k) >= best_overhead_ * kRounding) return;
  for (char bit : {char{1}, char{0}}) {
    now_[k] = bit;
    if (!bit) Set(decisions_[k], 0);
    Explore(k + 1, stop);
  }
  Set(decisions_[k], 1);
}

}  // namespace ebbtide
