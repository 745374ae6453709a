// The moves of the search.
#include <algorithm>

#include "planner/search.h"

namespace ebbtide {

void Search::Treat(int v, Treatment treatment) {
  Row row;
  if (treatment == Treatment::kKeep || treatment == Treatment::kHold) {
    row.Fill(1);
    if (treatment == Treatment::kHold) row.Set(-1, 0);
  }
  if (treatment == Treatment::kNear) {
    // Held if the next stage that needs it is at most `near` stages later.
    const int near = 6 << Below(4);
    for (int t : graph_.needed_by[v]) row.Set(std::max(0, t - near), t, 1);
  }
  state_.SetRow(v, row);
}

// The last event of v before stage t, where its bit decides whether v is there
// at t.
int Search::PreviousEvent(int v, int t) const {
  const Events& events = state_.events(v);
  const auto at = EventFrom(events, t);
  return at == events.begin() ? -1 : (at - 1)->stage;
}

// A stage with a high peak: the highest of a few, or of all.
int Search::PeakStage() {
  if (Below(2) == 0) return state_.HighestStage();
  int best = Below(graph_.stages);
  for (int k = 4 + Below(12); k > 0; --k) {
    const int t = Below(graph_.stages);
    if (state_.stage_peak(t) > state_.stage_peak(best)) best = t;
  }
  return best;
}

// Drops some value that is held through the start of stage t.
bool Search::DropAt(int t) {
  for (int k = 0; k < 30; ++k) {
    const int v = AnyOf(movers_);
    const Events& events = state_.events(v);
    const auto at = EventFrom(events, t);
    if (graph_.bytes[v] == 0 || at == events.end()) continue;
    if (at == events.begin() || !(at - 1)->bit) continue;
    state_.SetBit(v, (at - 1)->stage, 0);
    return true;
  }
  return false;
}

void Search::FlipOne() {
  const int v = AnyOf(movers_);
  const Events& events = state_.events(v);
  if (events.empty()) return;
  const Event& event = events[Below(events.size())];
  state_.SetBit(v, event.stage, !event.bit);
}

void Search::DropAtPeak() { DropAt(PeakStage()); }

// Holds the output of some recomputed op, the dearest of a few.
bool Search::HoldRebuilt(int* value, int* stage) {
  int op = -1;
  if (state_.rebuilt() == 0) return false;
  for (int k = Below(3); k >= 0; --k) {
    const auto [t, position] = state_.FindRebuilt(Below(state_.rebuilt()));
    const int i = state_.work(t).rebuilt[position];
    if (op >= 0 && graph_.time[i] <= graph_.time[op]) continue;
    op = i;
    *stage = t;
  }
  const auto outputs = graph_.outputs[op];
  for (int v : outputs) state_.SetBit(v, PreviousEvent(v, *stage), 1);
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
    if (state_.stage_peak(s) > state_.stage_peak(worst)) worst = s;
  }
  for (int k = 1 + Below(2); k > 0; --k) DropAt(worst);
}

// Exchanges a kept and a recomputed value of one kind, of one neighbourhood or
// of anywhere.
void Search::Swap() {
  constexpr int kNeighbourhood = 40;
  const int v = AnyOf(movers_);
  int u = AnyOf(movers_);
  const int how = Below(3);
  if (how == 0) {
    u = AnyOf(kinds_[kind_[v]]);
  } else if (how == 1) {
    const int near = v + Below(2 * kNeighbourhood) - kNeighbourhood;
    u = std::clamp(near, 0, graph_.values - 1);
  }
  if (u == v) return;
  const auto other = static_cast<Treatment>(1 + Below(3));
  const bool kept = draft().bits.Get(v, -1);
  Treat(v, kept ? other : Treatment::kKeep);
  Treat(u, kept ? Treatment::kKeep : other);
}

// Copies the rows of a run of values onto a run of the same kinds, shifted in
// time as the runs are.
void Search::CopyRun() {
  const int from = AnyOf(movers_);
  const int to = AnyOf(kinds_[kind_[from]]);
  const auto from_uses = graph_.needed_by[from];
  const auto to_uses = graph_.needed_by[to];
  if (from == to || from_uses.empty() || to_uses.empty()) return;
  const int shift = to_uses.back() - from_uses.back();
  const int most = graph_.values - std::max(from, to);
  const int length = std::min({1 + Below(48), most, std::abs(from - to)});
  for (int k = 0; k < length; ++k) {
    const int a = from + k;
    const int b = to + k;
    if (kind_[a] != kind_[b]) return;
    Row row = draft().bits.row(a);
    row.Shift(shift, graph_.stages);
    state_.SetRow(b, row);
  }
}

// One treatment for a run of values of a kind.
void Search::TreatRun() {
  const std::vector<int>& kind = kinds_[kind_[AnyOf(movers_)]];
  const int begin = Below(kind.size());
  const int end = std::min<int>(kind.size(), begin + 1 + Below(6));
  const auto treatment = static_cast<Treatment>(Below(4));
  for (int k = begin; k < end; ++k) Treat(kind[k], treatment);
}

// The same bit for a few values that one stage uses.
void Search::SetAtStage() {
  const int t = Below(graph_.stages);
  const std::vector<StageWork::Touch>& touched = state_.work(t).touched;
  const int size = static_cast<int>(touched.size());
  if (size == 0) return;
  const char bit = static_cast<char>(Below(2));
  const int first = Below(size);
  for (int k = 1 + Below(std::min(size, 4)); k > 0; --k) {
    state_.SetBit(touched[(first + k) % size].value, t, bit);
  }
}

// The same bit at a few events of one value.
void Search::SetEvents() {
  const int v = AnyOf(movers_);
  const Events& events = state_.events(v);
  const int size = static_cast<int>(events.size());
  if (size == 0) return;
  const int begin = Below(size);
  const int end = std::min(size, begin + 1 + Below(3));
  const char bit = static_cast<char>(Below(2));
  for (int k = begin; k < end; ++k) state_.SetBit(v, events[k].stage, bit);
}

// Recomputes a value at an earlier stage where one of its inputs is recomputed,
// and holds it instead; or no longer does so.
void Search::RebuildEarly() {
  if (state_.rebuilt() == 0) return;
  const auto [t, position] = state_.FindRebuilt(Below(state_.rebuilt()));
  const int i = state_.work(t).rebuilt[position];
  for (int v : graph_.outputs[i]) {
    const auto& early = draft().bits.row(v).early();
    if (std::find(early.begin(), early.end(), t) == early.end()) continue;
    state_.RemoveEarly(v, t);
    return;
  }
  const auto inputs = graph_.inputs[i];
  if (inputs.empty()) return;
  const int u = inputs[Below(inputs.size())];
  int s = PreviousEvent(u, t);
  if (Below(4) == 0) s = t - 1 - Below(4);
  const auto outputs = graph_.outputs[i];
  const int v = outputs[Below(outputs.size())];
  if (s < 0 || graph_.held[v] >= s) return;
  state_.AddEarly(v, s);
  state_.SetBits(v, s, t, 1);
  if (Below(2) == 0) state_.SetBit(u, s, 0);
}

// Offloads a value, or no longer; half the time another one the other way.
void Search::FlipOffload() {
  const int v = AnyOf(offloaders_);
  const char bit = !draft().offloaded[v];
  state_.SetOffloaded(v, bit);
  if (bit) state_.SetBit(v, -1, 1);
  if (!bit && rebuild_ && Below(2) == 0) Treat(v, Treatment::kHold);
  if (Below(2) == 0) return;
  const int u = AnyOf(offloaders_);
  if (u == v) return;
  state_.SetOffloaded(u, !bit);
  if (!bit) state_.SetBit(u, -1, 1);
}

// False if it would change nothing.
bool Search::Move() {
  const bool offload = !draft().offloaded.empty() && !offloaders_.empty();
  if (movers_.empty() || !rebuild_ || (offload && Below(4) == 0)) {
    if (offload) FlipOffload();
    return state_.changed();
  }
  int v = 0;
  int t = 0;
  // Shares of 23: copies of runs are what a network of equal layers gains most
  // by.
  const int pick = Below(23);
  if (pick < 3) {
    FlipOne();
  } else if (pick < 5) {
    DropAtPeak();
  } else if (pick < 8) {
    HoldRebuilt(&v, &t);
  } else if (pick < 12) {
    HoldAndDrop();
  } else if (pick < 13) {
    Treat(AnyOf(movers_), static_cast<Treatment>(Below(4)));
  } else if (pick < 16) {
    Swap();
  } else if (pick < 19) {
    CopyRun();
  } else if (pick < 20) {
    TreatRun();
  } else if (pick < 21) {
    SetAtStage();
  } else if (pick < 22) {
    SetEvents();
  } else {
    RebuildEarly();
  }
  return state_.changed();
}

}  // namespace ebbtide
