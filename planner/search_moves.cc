// The moves of the search.
#include <algorithm>

#include "planner/search.h"

namespace ebbtide {
namespace {

constexpr int kOffloadBit = -2;  // in place of a stage

}  // namespace

void Search::Set(int v, int t, char bit) {
  if (graph_.pinned[v] || draft_.bits.Get(v, t) == bit) return;
  undo_.push_back({v, t, draft_.bits.Get(v, t)});
  draft_.bits.Set(v, t, bit);
}

void Search::SetOffloaded(int v, char bit) {
  if (draft_.offloaded[v] == bit) return;
  undo_.push_back({v, kOffloadBit, draft_.offloaded[v]});
  draft_.offloaded[v] = bit;
}

void Search::Revert() {
  for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) {
    if (it->stage == kOffloadBit) {
      draft_.offloaded[it->value] = it->bit;
    } else {
      draft_.bits.Set(it->value, it->stage, it->bit);
    }
  }
  undo_.clear();
}

void Search::SetRow(int v, Row row) {
  if (row != Row::kNear) {
    Set(v, -1, row == Row::kKeep);
    for (int t = 0; t < graph_.stages; ++t) Set(v, t, row != Row::kDrop);
    return;
  }
  // Held where the next stage that needs it is at most `near` away.
  const int near = 6 << Below(4);
  Set(v, -1, 0);
  size_t next = 0;
  for (int t = 0; t < graph_.stages; ++t) {
    while (next < direct_[v].size() && direct_[v][next] <= t) ++next;
    Set(v, t, next < direct_[v].size() && direct_[v][next] - t <= near);
  }
}

void Search::IndexEvents() {
  if (!events_stale_) return;
  events_stale_ = false;
  for (auto& list : events_) list.assign(1, -1);
  for (int t = 0; t < graph_.stages; ++t) {
    for (int k = now_.touched_begin[t]; k < now_.touched_begin[t + 1]; ++k) {
      events_[now_.touched[k]].push_back(t);
    }
  }
}

// The last event of v before stage t, where its bit decides whether v is there
// at t.
int Search::PreviousEvent(int v, int t) const {
  const auto it = std::lower_bound(events_[v].begin(), events_[v].end(), t);
  return it == events_[v].begin() ? -1 : *(it - 1);
}

// A stage with a high peak: the highest of a few, or of all.
int Search::PeakStage() {
  int best = Below(graph_.stages);
  const bool all = Below(2) == 0;
  const int tries = all ? graph_.stages : 4 + Below(12);
  for (int k = 0; k < tries; ++k) {
    const int t = all ? k : Below(graph_.stages);
    if (now_.stage_peak[t] > now_.stage_peak[best]) best = t;
  }
  return best;
}

// Drops some value that is held through the start of stage t.
bool Search::DropAt(int t) {
  for (int k = 0; k < 30; ++k) {
    const int v = movers_[Below(movers_.size())];
    if (now_.last_use[v] < t || graph_.bytes[v] == 0) continue;
    const int event = PreviousEvent(v, t);
    if (!draft_.bits.Get(v, event)) continue;
    Set(v, event, 0);
    return true;
  }
  return false;
}

void Search::FlipOne() {
  const int v = movers_[Below(movers_.size())];
  const int t = events_[v][Below(events_[v].size())];
  Set(v, t, !draft_.bits.Get(v, t));
}

void Search::DropAtPeak() { DropAt(PeakStage()); }

// Holds the output of some op that is run again, the dearest of a few.
bool Search::HoldRebuilt(int* value, int* stage) {
  if (now_.rebuilt.empty()) return false;
  int best = Below(now_.rebuilt.size());
  for (int k = Below(3); k > 0; --k) {
    const int other = Below(now_.rebuilt.size());
    if (graph_.time[now_.rebuilt[other]] > graph_.time[now_.rebuilt[best]]) {
      best = other;
    }
  }
  const auto after = std::upper_bound(now_.rebuilt_begin.begin(),
                                      now_.rebuilt_begin.end(), best);
  *stage = static_cast<int>(after - now_.rebuilt_begin.begin()) - 1;
  const auto outputs = graph_.outputs[now_.rebuilt[best]];
  for (int v : outputs) Set(v, PreviousEvent(v, *stage), 1);
  *value = outputs[Below(outputs.size())];
  return true;
}

// Holds one value and drops one or two where that hurts most.
void Search::HoldAndDrop() {
  int v = 0;
  int t = 0;
  if (!HoldRebuilt(&v, &t)) return;
  const int event = PreviousEvent(v, t);
  int worst = t;
  for (int k = std::min(t - event, 6); k > 0; --k) {
    const int s = std::max(0, event + 1 + Below(t - event));
    if (now_.stage_peak[s] > now_.stage_peak[worst]) worst = s;
  }
  for (int k = 1 + Below(2); k > 0; --k) DropAt(worst);
}

// Exchanges a kept and a rebuilt value of one kind, of one neighbourhood or of
// anywhere.
void Search::SwapRows() {
  constexpr int kNeighbourhood = 40;
  const int v = movers_[Below(movers_.size())];
  int u = movers_[Below(movers_.size())];
  const int how = Below(3);
  if (how == 0) {
    const std::vector<int>& kind = kinds_[kind_[v]];
    u = kind[Below(kind.size())];
  } else if (how == 1) {
    const int near = v + Below(2 * kNeighbourhood) - kNeighbourhood;
    u = std::clamp(near, 0, graph_.values - 1);
  }
  if (u == v) return;
  const Row other = static_cast<Row>(1 + Below(3));
  const bool kept = draft_.bits.Get(v, -1);
  SetRow(v, kept ? other : Row::kKeep);
  SetRow(u, kept ? Row::kKeep : other);
}

// Copies the rows of a run of values onto a run of the same kinds, shifted in
// time as the runs are.
void Search::CopyRun() {
  const int from = movers_[Below(movers_.size())];
  const std::vector<int>& kind = kinds_[kind_[from]];
  const int to = kind[Below(kind.size())];
  if (from == to || direct_[from].empty() || direct_[to].empty()) return;
  const int shift = direct_[from].back() - direct_[to].back();
  const int most = graph_.values - std::max(from, to);
  const int length = std::min({1 + Below(48), most, std::abs(from - to)});
  for (int k = 0; k < length; ++k) {
    const int a = from + k;
    const int b = to + k;
    if (kind_[a] != kind_[b]) return;
    Set(b, -1, draft_.bits.Get(a, -1));
    for (int t = std::max(0, -shift);
         t < std::min(graph_.stages, graph_.stages - shift); ++t) {
      Set(b, t, draft_.bits.Get(a, t + shift));
    }
  }
}

// One treatment for a run of values of a kind.
void Search::RowRun() {
  const int v = movers_[Below(movers_.size())];
  const std::vector<int>& kind = kinds_[kind_[v]];
  const int begin = Below(kind.size());
  const int end = std::min<int>(kind.size(), begin + 1 + Below(6));
  const Row row = static_cast<Row>(Below(4));
  for (int k = begin; k < end; ++k) SetRow(kind[k], row);
}

// The same bit for a few values that one stage uses.
void Search::SetAtStage() {
  const int t = Below(graph_.stages);
  const int begin = now_.touched_begin[t];
  const int size = now_.touched_begin[t + 1] - begin;
  if (size == 0) return;
  const char bit = static_cast<char>(Below(2));
  const int first = Below(size);
  for (int k = 1 + Below(std::min(size, 4)); k > 0; --k) {
    Set(now_.touched[begin + (first + k) % size], t, bit);
  }
}

// The same bit at a few events of one value.
void Search::SetEvents() {
  const int v = movers_[Below(movers_.size())];
  const int size = static_cast<int>(events_[v].size());
  const int begin = Below(size);
  const int end = std::min(size, begin + 1 + Below(3));
  const char bit = static_cast<char>(Below(2));
  for (int k = begin; k < end; ++k) Set(v, events_[v][k], bit);
}

// Offloads a value, or no longer; half the time another one the other way.
void Search::FlipOffload() {
  const int v = offloaders_[Below(offloaders_.size())];
  const char bit = !draft_.offloaded[v];
  SetOffloaded(v, bit);
  if (bit) Set(v, -1, 1);
  if (!bit && rebuild_ && Below(2) == 0) SetRow(v, Row::kHold);
  if (Below(2) == 0) return;
  const int u = offloaders_[Below(offloaders_.size())];
  if (u == v) return;
  SetOffloaded(u, !bit);
  if (!bit) Set(u, -1, 1);
}

bool Search::Move() {
  IndexEvents();
  undo_.clear();
  const bool offload = !draft_.offloaded.empty() && !offloaders_.empty();
  if (movers_.empty() || !rebuild_ || (offload && Below(4) == 0)) {
    if (offload) FlipOffload();
    return !undo_.empty();
  }
  int v = 0;
  int t = 0;
  const int pick = Below(20);
  if (pick < 3) {
    FlipOne();
  } else if (pick < 5) {
    DropAtPeak();
  } else if (pick < 8) {
    HoldRebuilt(&v, &t);
  } else if (pick < 12) {
    HoldAndDrop();
  } else if (pick < 13) {
    SetRow(movers_[Below(movers_.size())], static_cast<Row>(Below(4)));
  } else if (pick < 16) {
    SwapRows();
  } else if (pick < 17) {
    CopyRun();
  } else if (pick < 18) {
    RowRun();
  } else if (pick < 19) {
    SetAtStage();
  } else {
    SetEvents();
  }
  return !undo_.empty();
}

}  // namespace ebbtide
