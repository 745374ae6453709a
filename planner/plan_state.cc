// The draft, its events, and the ops recomputed before each stage. Bytes:
// plan_state_bytes.cc.
#include "planner/plan_state.h"

#include <algorithm>
#include <functional>

namespace ebbtide {
void PlanState::Load(Draft draft) {
  ForgetChanges();
  draft_ = std::move(draft);
  forward_peak_ = BlockedPeaks(base_forward_);
  stage_peak_ = BlockedPeaks(base_stage_);
  for (Block& block : blocks_) block = {};
  moves_ = {};
  for (auto& list : early_) list.clear();
  for (int v = 0; v < graph_.values; ++v) {
    if (graph_.pinned[v]) draft_.bits.SetRow(v, 1);
    const Row& row = draft_.bits.row(v);
    for (int t : row.early()) early_[t].push_back(v);
    // A value without logged changes has no interval that Update would remove.
    events_[v].clear();
    ChangeEvents(v);
    const int first = graph_.held[v];
    if (first >= graph_.stages || (first < 0 && !graph_.keepable[v])) continue;
    const char bit = graph_.keepable[v] ? row.Get(first) : 0;
    events_[v].push_back({first, 0, bit});
  }
  for (int t = 0; t < graph_.stages; ++t) {
    work_[t] = {};
    Push(t);
  }
  Update();
  ForgetChanges();
}

Row& PlanState::ChangeRow(int v) {
  if (!row_changed_[v]) {
    row_changed_[v] = 1;
    const char offloaded = draft_.offloaded.empty() ? 0 : draft_.offloaded[v];
    rows_.push_back({v, offloaded, draft_.bits.row(v)});
  }
  return draft_.bits.row(v);
}

void PlanState::SetBit(int v, int t, char bit) {
  if (graph_.pinned[v] || draft_.bits.Get(v, t) == bit) return;
  ChangeRow(v).Set(t, bit);
}

void PlanState::SetBits(int v, int begin, int end, char bit) {
  if (!graph_.pinned[v]) ChangeRow(v).Set(begin, end, bit);
}

void PlanState::SetRow(int v, const Row& row) {
  if (graph_.pinned[v] || draft_.bits.row(v) == row) return;
  ChangeRow(v) = row;
}

void PlanState::SetOffloaded(int v, char bit) {
  if (draft_.offloaded[v] == bit) return;
  ChangeRow(v);
  draft_.offloaded[v] = bit;
}

void PlanState::AddEarly(int v, int t) { ChangeRow(v).AddEarly(t); }

void PlanState::RemoveEarly(int v, int t) { ChangeRow(v).RemoveEarly(t); }

Events& PlanState::ChangeEvents(int v) {
  if (!events_changed_[v]) {
    events_changed_[v] = 1;
    old_events_.push_back({v, AwayOf(v), events_[v]});
  }
  return events_[v];
}

// The stage's work as it was is logged; what is returned is empty but for its
// rise.
StageWork& PlanState::ChangeWork(int t) {
  if (works_ == old_work_.size()) old_work_.emplace_back();
  auto& [stage, work] = old_work_[works_++];
  stage = t;
  CountWork(t, -1);
  std::swap(work, work_[t]);
  work_[t].rebuilt.clear();
  work_[t].touched.clear();
  work_[t].rise = work.rise;
  work_[t].time = 0;
  work_[t].broken = false;
  return work_[t];
}

void PlanState::ForgetChanges() {
  for (const OldRow& old : rows_) row_changed_[old.value] = 0;
  for (const OldEvents& old : old_events_) events_changed_[old.value] = 0;
  rows_.clear();
  old_events_.clear();
  works_ = 0;
  added_.clear();
  old_rises_.clear();
  old_moves_ = moves_;
}

void PlanState::Commit() { ForgetChanges(); }

void PlanState::Revert() {
  for (size_t k = added_.size(); k-- > 0;) Add(added_[k], -1);
  for (size_t k = old_rises_.size(); k-- > 0;) {
    work_[old_rises_[k].first].rise = old_rises_[k].second;
  }
  for (size_t k = works_; k-- > 0;) {
    auto& [t, work] = old_work_[k];
    CountWork(t, -1);
    std::swap(work, work_[t]);
    CountWork(t, 1);
  }
  for (OldEvents& old : old_events_) {
    events_[old.value] = std::move(old.events);
  }
  for (OldRow& old : rows_) {
    Row& row = draft_.bits.row(old.value);
    SyncEarly(old.value, row, old.row);
    row = std::move(old.row);
    if (!draft_.offloaded.empty()) draft_.offloaded[old.value] = old.offloaded;
  }
  for (int t : stale_) rise_stale_[t] = 0;
  stale_.clear();
  moves_ = old_moves_;
  ForgetChanges();
  SumTimes();
  SumBytes();
}

void PlanState::Update() {
  UpdateTime();
  UpdateHeld();
  UpdatePeaks();
}

void PlanState::UpdateTime() {
  for (size_t k = 0; k < rows_.size(); ++k) SyncRow(rows_[k]);
  while (!queue_.empty()) Close(Pop());
  SumTimes();
}

void PlanState::UpdateHeld() {
  for (size_t k = 0; k < old_events_.size(); ++k) MoveIntervals(old_events_[k]);
  SumBytes();
}

void PlanState::UpdatePeaks() {
  if (stale_.empty()) return;
  for (int t : stale_) Rise(t);
  stale_.clear();
  SumBytes();
}

// Brings the events of a changed row up to date.
void PlanState::SyncRow(const OldRow& old) {
  const int v = old.value;
  const Row& row = draft_.bits.row(v);
  const Away away = AwayOf(old.offloaded, old.row);
  if (AwayOf(v) != away) {
    ChangeEvents(v);
    old_events_.back().away = away;
  }
  for (size_t k = 0; k < events_[v].size(); ++k) {
    const Event& event = events_[v][k];
    const bool first = k == 0 && event.stage == graph_.held[v];
    const char bit =
        first && !graph_.keepable[v] ? char{0} : row.Get(event.stage);
    if (bit == event.bit) continue;
    ChangeEvents(v)[k].bit = bit;
    if (k + 1 < events_[v].size()) Push(events_[v][k + 1].stage);
  }
  if (!(old.row.early() == row.early())) {
    SyncEarly(v, old.row, row);
    for (int t : old.row.early()) Push(t);
    for (int t : row.early()) Push(t);
  }
}

void PlanState::SyncEarly(int v, const Row& was, const Row& is) {
  for (int t : was.early()) {
    early_[t].erase(std::find(early_[t].begin(), early_[t].end(), v));
  }
  for (int t : is.early()) early_[t].push_back(v);
}

void PlanState::Push(int t) {
  if (queued_[t]) return;
  queued_[t] = 1;
  queue_.push_back(t);
  std::push_heap(queue_.begin(), queue_.end(), std::greater<int>());
}

int PlanState::Pop() {
  std::pop_heap(queue_.begin(), queue_.end(), std::greater<int>());
  const int t = queue_.back();
  queue_.pop_back();
  queued_[t] = 0;
  return t;
}

// True if v is there when stage t comes, before any recomputation.
bool PlanState::IsThere(int v, int t) const {
  if (graph_.held[v] >= t) return true;
  const auto next = EventFrom(events_[v], t);
  return next != events_[v].begin() && (next - 1)->bit;
}

// Determines anew the ops to recompute before stage t.
void PlanState::Close(int t) {
  StageWork& work = ChangeWork(t);
  const StageWork& was = old_work_[works_ - 1].second;
  missing_.clear();
  for (int v : graph_.needs[t]) Use(v, t, &work);
  for (int v : early_[t]) Use(v, t, &work);
  for (size_t k = 0; k < missing_.size(); ++k) {
    for (int v : graph_.inputs[missing_[k]]) Use(v, t, &work);
  }
  SortMarked(&work.rebuilt);
  for (int i : work.rebuilt) {
    op_mark_[i] = 0;
    work.time += graph_.time[i];
    for (int v : graph_.outputs[i]) {
      if (mark_[v] || graph_.held[v] >= t) continue;
      mark_[v] = 1;
      marked_.push_back(v);
      work.touched.push_back({v, 0});
    }
  }
  for (int v : marked_) mark_[v] = 0;
  marked_.clear();
  CountWork(t, 1);
  if (!rise_stale_[t]) stale_.push_back(t);
  rise_stale_[t] = 1;
  MoveEvents(t, was, work);
}

// Sorts ascending; op_mark_ marks just these. Ops close together are collected
// in one pass, which takes a third of the time of sorting.
void PlanState::SortMarked(std::vector<int>* ops) {
  if (ops->empty()) return;
  const auto [low, high] = std::minmax_element(ops->begin(), ops->end());
  const int first = *low;
  const int last = *high;
  if (last - first > 8 * static_cast<int>(ops->size())) {
    std::sort(ops->begin(), ops->end());
    return;
  }
  ops->clear();
  for (int i = first; i <= last; ++i) {
    if (op_mark_[i]) ops->push_back(i);
  }
}

void PlanState::Use(int v, int t, StageWork* work) {
  if (mark_[v]) return;
  mark_[v] = 1;
  marked_.push_back(v);
  if (graph_.held[v] < t) work->touched.push_back({v, 1});
  const int i = graph_.op[v];
  if (IsThere(v, t) || op_mark_[i]) return;
  if (!graph_.replayable[i]) {
    work->broken = true;
    return;
  }
  op_mark_[i] = 1;
  work->rebuilt.push_back(i);
  missing_.push_back(i);
}

// Events of values that stage t touches, and touched otherwise before.
void PlanState::MoveEvents(int t, const StageWork& was, const StageWork& is) {
  constexpr char kMade = 1;
  constexpr char kUsed = 2;
  for (const StageWork::Touch& touch : is.touched) {
    mark_[touch.value] = touch.used ? kUsed : kMade;
  }
  for (const StageWork::Touch& touch : was.touched) {
    char& mark = mark_[touch.value];
    if (mark == 0) {
      EraseEvent(touch.value, t);
      continue;
    }
    if ((mark == kUsed) != touch.used) {
      Events& events = ChangeEvents(touch.value);
      EventFrom(events, t)->used = mark == kUsed;
    }
    mark = 0;
  }
  for (const StageWork::Touch& touch : is.touched) {
    if (mark_[touch.value] == 0) continue;
    mark_[touch.value] = 0;
    InsertEvent(touch.value, t, touch.used);
  }
}

void PlanState::InsertEvent(int v, int t, char used) {
  Events& events = ChangeEvents(v);
  auto next = EventFrom(events, t);
  const char before = next == events.begin() ? 0 : (next - 1)->bit;
  const char bit = draft_.bits.Get(v, t);
  if (next != events.end() && before != bit) Push(next->stage);
  events.insert(next, {t, used, bit});
}

void PlanState::EraseEvent(int v, int t) {
  Events& events = ChangeEvents(v);
  const auto at = EventFrom(events, t);
  const char before = at == events.begin() ? 0 : (at - 1)->bit;
  if (at + 1 != events.end() && before != at->bit) Push((at + 1)->stage);
  events.erase(at);
}

void PlanState::CountWork(int t, int sign) {
  Block& block = blocks_[t / kBlock];
  const StageWork& work = work_[t];
  block.rebuilt += sign * static_cast<int>(work.rebuilt.size());
  block.broken += sign * static_cast<int>(work.broken);
  block.time_known = false;
  rebuild_time_[t] = sign > 0 ? work.time : 0;
}

std::pair<int, int> PlanState::FindRebuilt(int k) const {
  size_t block = 0;
  while (k >= blocks_[block].rebuilt) k -= blocks_[block++].rebuilt;
  int t = static_cast<int>(block) * kBlock;
  while (k >= static_cast<int>(work_[t].rebuilt.size())) {
    k -= static_cast<int>(work_[t++].rebuilt.size());
  }
  return {t, k};
}

}  // namespace ebbtide
