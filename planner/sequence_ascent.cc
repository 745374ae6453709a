#include "planner/sequence_ascent.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ebbtide {
namespace {

// Of the sum of all terms of a bound, as room for what double arithmetic
// rounds: a sum of n terms is off by less than n 2^-53 of it.
constexpr double kMargin = 1e-9;

constexpr double kSmoothing = 0.6;  // of the direction
constexpr double kFade = 0.97;      // of what was kept in earlier steps
constexpr size_t kMostSizes = 8;    // rows of memory beside that of bytes

// The last stage before an instant, which may be a stage itself.
int LastStage(const Graph& graph, int instant) {
  if (!IsRerun(graph, instant)) return instant - graph.ops;
  return AsRerun(graph, instant).stage - 1;
}

// An instant with what is needed from there to the next one.
Instant Between(const Graph& graph, int instant, int next) {
  const int last = next < 0 ? graph.stages - 1 : LastStage(graph, next);
  Instant from;
  if (IsRerun(graph, instant)) {
    const Rerun rerun = AsRerun(graph, instant);
    from = AtRerun(graph, rerun.op, rerun.stage, last);
  } else {
    from = AtInstant(graph, instant, last);
  }
  if (next >= 0 && IsRerun(graph, next)) {
    // What the op reads and makes must be had by then.
    const Rerun rerun = AsRerun(graph, next);
    for (int v : graph.inputs[rerun.op]) from.needed[v] = 1;
    for (int v : graph.outputs[rerun.op]) from.needed[v] = 1;
  }
  return from;
}

// What a unit of overhead does for the bytes on the host at instant `window`
// in part 0 (before all instants), 1 (in the first window), and so on.
double Growth(const HostRoom& host, int window, int part) {
  return part <= window ? host.per_before : host.per_after;
}

}  // namespace

std::vector<int> WithInstant(const Graph& graph, const std::vector<int>& before,
                             int instant) {
  const auto position = [&graph](int i) {
    if (!IsRerun(graph, i)) return static_cast<double>(i);
    return graph.ops + AsRerun(graph, i).stage - 0.5;
  };
  const double here = position(instant);
  const auto behind =
      std::find_if(before.begin(), before.end(),
                   [&](int other) { return position(other) >= here; });
  if (behind != before.end() && position(*behind) == here) return {};
  std::vector<int> after(before.begin(), behind);
  after.push_back(instant);
  after.insert(after.end(), behind, before.end());
  return after;
}

SequencePrices PricesFor(const SequencePrices& prices,
                         const std::vector<int>& before,
                         const std::vector<int>& after) {
  const auto at = std::mismatch(before.begin(), before.end(), after.begin());
  const auto k = at.first - before.begin();
  SequencePrices more = prices;
  more.memory.insert(more.memory.begin() + k, std::vector<double>());
  // What the instant behind pays for keeping a value is paid at the new one and
  // given back for having it. Nothing is paid at the first.
  std::vector<double> coupling(prices.coupling[0].size(), 0);
  if (k > 0 && at.first != before.end()) coupling = prices.coupling[k];
  more.coupling.insert(more.coupling.begin() + k, std::move(coupling));
  return more;
}

SequenceProblem::SequenceProblem(const Graph& graph, int64_t budget,
                                 const HostRooms& host,
                                 const std::vector<int>& instants)
    : graph_(graph),
      budget_(budget),
      instants_(instants),
      weight_(graph.values) {
  std::vector<int> wanted;  // by the windows after
  for (size_t k = instants.size(); k-- > 0;) {
    const int next = k + 1 < instants.size() ? instants[k + 1] : -1;
    windows_.emplace_front(
        WindowCut(graph, Between(graph, instants[k], next), wanted));
    Window& window = windows_.front();
    window.host =
        host.At(IsRerun(graph, instants[k]) ? graph.ops : instants[k]);
    for (const HostRoom& h : window.host) {
      moves_ = moves_ || h.bytes + h.per_before + h.per_after > 0;
    }
    wanted = window.cut.values();
  }
  for (int v = 0; v < graph.values; ++v) {
    const double share = static_cast<double>(graph.bytes[v]) / budget;
    weight_[v] = std::min(1.0, 4 * std::sqrt(share));
  }
  FindRows();
}

// One row for each of the largest sizes that there is room for.
void SequenceProblem::FindRows() {
  for (Window& window : windows_) {
    window.surcharge.assign(graph_.values, 0);
    if (moves_) continue;
    const int64_t room = budget_ - window.cut.instant().fixed;
    std::vector<int64_t> sizes;
    for (int v : window.cut.values()) {
      const int64_t bytes = graph_.bytes[v];
      if (bytes > 1 && bytes <= room) sizes.push_back(bytes);
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    if (sizes.size() > kMostSizes) sizes.resize(kMostSizes);
    window.rows.insert(window.rows.end(), sizes.begin(), sizes.end());
  }
}

bool SequenceProblem::Decide(const std::vector<KeepDecision>& decisions) {
  for (Window& window : windows_) {
    window.cut.Reset();
    window.room = budget_ - window.cut.instant().fixed;
  }
  for (const KeepDecision& d : decisions) {
    const auto at = std::find(instants_.begin(), instants_.end(), d.instant);
    const auto k = at - instants_.begin();
    Window& window = windows_[k];
    if (!d.keep) {
      window.cut.Drop(d.value);
      continue;
    }
    window.cut.Keep(d.value);
    window.room -= graph_.bytes[d.value];
    if (k > 0) windows_[k - 1].cut.Need(d.value);
  }
  if (!moves_ && !DropOversize()) return false;
  FindCoupled();
  return true;
}

// A value larger than what is left is not kept.
bool SequenceProblem::DropOversize() {
  for (Window& window : windows_) {
    if (window.room < 0) return false;
    for (int v : window.cut.values()) {
      if (window.cut.IsOpen(v) && graph_.bytes[v] > window.room) {
        window.cut.Drop(v);
      }
    }
  }
  return true;
}

// A row whose value is had in the window before anyway holds by itself, and so
// does one whose value is not kept.
void SequenceProblem::FindCoupled() {
  for (int k = 1; k < windows(); ++k) {
    const WindowCut& before = windows_[k - 1].cut;
    const WindowCut& cut = windows_[k].cut;
    std::vector<int>& coupled = windows_[k].coupled;
    coupled.clear();
    for (int v : cut.values()) {
      if (!before.Has(v) || before.IsNeeded(v) || before.IsKept(v)) continue;
      if (cut.IsOpen(v) || !cut.CanRebuild(v)) coupled.push_back(v);
    }
  }
}

// The bound at these prices.
Time SequenceProblem::Lower(const SequencePrices& prices) {
  double value = 0;
  double terms = 0;
  const auto pay = [&](double amount) {
    value -= amount;
    terms += amount;
  };
  for (int k = 0; k < windows(); ++k) {
    Window& window = windows_[k];
    const std::vector<double>& memory = prices.memory[k];
    for (int v : window.cut.values()) {
      window.surcharge[v] = prices.coupling[k][v];
    }
    for (size_t r = 1; r < window.rows.size(); ++r) {
      if (memory[r] <= 0) continue;
      const int64_t size = window.rows[r];
      for (int v : window.cut.values()) {
        window.surcharge[v] += memory[r] * (graph_.bytes[v] / size);
      }
      pay(memory[r] * (window.room / size));
    }
    for (int v : window.coupled) pay(prices.coupling[k][v]);
    const double cut = window.cut.Solve(
        {.per_byte = memory[0],
         .surcharge = &window.surcharge,
         .reward = k + 1 < windows() ? &prices.coupling[k + 1] : nullptr});
    value += cut;
    terms += cut;
  }
  return Divide(value, terms, prices);
}

// With parts x0, x1, ... of the overhead the cuts say that
//     x1 + x2 + ... >= value - sum of price (room + bytes + growth x),
// so that the sum of all is least where all of it is the part with the largest
// factor in this row. Each choice of one row of host/room per window holds.
Time SequenceProblem::Divide(double value, double terms,
                             const SequencePrices& prices) {
  Time best = 0;
  part_ = windows();
  std::vector<size_t> pick(windows(), 0);
  while (true) {
    double missing = value;
    double all = terms;
    std::vector<double> factor(windows() + 1, 1);
    factor[0] = 0;
    for (int k = 0; k < windows(); ++k) {
      const HostRoom& host = windows_[k].host[pick[k]];
      const double price = prices.memory[k][0];
      const double paid = price * (windows_[k].room + host.bytes);
      missing -= paid;
      all += std::abs(paid);
      for (int part = 0; part <= windows(); ++part) {
        factor[part] += price * Growth(host, k, part);
      }
    }
    missing -= kMargin * all;
    const auto most = std::max_element(factor.begin(), factor.end());
    if (missing / *most > best) {
      best = missing / *most;
      part_ = static_cast<int>(most - factor.begin());
    }
    int k = 0;
    while (k < windows() && ++pick[k] == windows_[k].host.size()) pick[k++] = 0;
    if (k == windows()) return best;
  }
}

// Kept beyond the room at an overhead of `bound`, all in the part that helps
// most, in the unit of the row.
double SequenceProblem::Excess(const Window& window, size_t row,
                               Time bound) const {
  const int64_t size = window.rows[row];
  int64_t kept = -(window.room / size);
  for (int v : window.cut.values()) {
    if (window.cut.IsOpen(v) && window.cut.Keeps(v)) {
      kept += graph_.bytes[v] / size;
    }
  }
  if (row > 0) return static_cast<double>(kept);
  const int k = static_cast<int>(&window - &windows_[0]);
  double room = HUGE_VAL;
  for (const HostRoom& h : window.host) {
    room = std::min(room, h.bytes + Growth(h, k, part_) * bound);
  }
  return kept - room;
}

// The subgradient at what the last cuts chose, `old` of it as before, each row
// in units of its own: rows of memory by the budget, the others by the size of
// their value.
void SequenceProblem::Direct(const SequencePrices& prices, Time bound,
                             double old, Step* step) {
  step->norm = 0;
  const auto add = [&](double price, double up, double* direction) {
    if (price <= 0) up = std::max(up, 0.0);
    *direction = old * *direction + (1 - old) * up;
    step->norm += *direction * *direction;
  };
  for (int k = 0; k < windows(); ++k) {
    const Window& window = windows_[k];
    for (size_t r = 0; r < window.rows.size(); ++r) {
      const double share = static_cast<double>(window.rows[r]) / budget_;
      add(prices.memory[k][r], Excess(window, r, bound) * share,
          &step->prices.memory[k][r]);
    }
    for (int v : window.coupled) {
      const int up = window.cut.Keeps(v) - windows_[k - 1].cut.Got(v);
      add(prices.coupling[k][v], weight_[v] * up, &step->prices.coupling[k][v]);
    }
  }
}

void SequenceProblem::Go(double length, const Step& step,
                         SequencePrices* prices) const {
  const auto go = [&](double weight, double direction, double* price) {
    *price = std::max(0.0, *price + length * direction * weight);
  };
  for (int k = 0; k < windows(); ++k) {
    const Window& window = windows_[k];
    for (size_t r = 0; r < window.rows.size(); ++r) {
      go(static_cast<double>(window.rows[r]) / budget_,
         step.prices.memory[k][r], &prices->memory[k][r]);
    }
    for (int v : window.coupled) {
      go(weight_[v], step.prices.coupling[k][v], &prices->coupling[k][v]);
    }
  }
}

void SequenceProblem::NoteKept() {
  kept_weight_ = kept_weight_ * kFade + 1;
  for (Window& window : windows_) {
    for (int v : window.cut.values()) {
      window.kept[v] = window.kept[v] * kFade + window.cut.Keeps(v);
    }
  }
}

KeepDecision SequenceProblem::Branch() const {
  KeepDecision best{.value = -1};
  double best_score = 0;
  for (bool wavering : {true, false}) {
    for (int k = 0; k < windows(); ++k) {
      const WindowCut& cut = windows_[k].cut;
      for (int v : cut.values()) {
        if (!cut.IsOpen(v)) continue;
        const double share = windows_[k].kept[v] / std::max(1.0, kept_weight_);
        const double score = (wavering ? std::min(share, 1 - share) : 1.0) *
                             static_cast<double>(graph_.bytes[v]);
        if (score <= best_score) continue;
        best_score = score;
        best = {.instant = instants_[k], .value = v};
      }
    }
    if (best.value >= 0) break;
  }
  return best;
}

// One price for each row that there is now. Decisions take rows away; the price
// of none would be paid without return, and the bound be wrong.
SequencePrices SequenceProblem::Fit(SequencePrices prices) const {
  prices.memory.resize(windows());
  prices.coupling.resize(windows());
  for (int k = 0; k < windows(); ++k) {
    const Window& window = windows_[k];
    prices.memory[k].resize(window.rows.size(), 0);
    prices.coupling[k].resize(graph_.values, 0);
    std::vector<double> coupling(graph_.values, 0);
    for (int v : window.coupled) coupling[v] = prices.coupling[k][v];
    prices.coupling[k] = std::move(coupling);
  }
  return prices;
}

void SequenceProblem::Ascend(int steps, Time upper,
                             const std::function<bool()>& stop,
                             SequenceAscent* ascent) {
  constexpr int kPatience = 12;    // steps without gain
  constexpr double kLeast = 1e-3;  // of the first step's length
  for (Window& window : windows_) window.kept.assign(graph_.values, 0);
  kept_weight_ = 0;
  ascent->prices = Fit(std::move(ascent->prices));
  SequencePrices prices = ascent->prices;
  Step step{.prices = Fit({})};
  double length = 1;
  int idle = 0;
  for (int n = 0; n < steps && !stop(); ++n) {
    const Time bound = Lower(prices);
    NoteKept();
    if (bound > ascent->bound * (1 + 1e-7)) {
      ascent->bound = bound;
      ascent->prices = prices;
      idle = 0;
      if (bound >= upper) break;
    } else if (++idle >= kPatience) {
      length *= 0.6;
      idle = 0;
      prices = ascent->prices;
      if (length < kLeast) break;
    }
    Direct(prices, bound, n == 0 ? 0 : kSmoothing, &step);
    if (step.norm < 1e-18) break;
    const Time far = std::max(upper - bound, 1e-6 * upper);
    Go(0.3 * length * far / step.norm, step, &prices);
  }
  ascent->branch = Branch();
}

}  // namespace ebbtide
