#include "planner/sequence_ascent.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace ebbtide {
namespace {

// Share of the sum of all terms of a bound, as room for the rounding of double
// arithmetic: a sum of n terms is off by less than n 2^-53 of it.
constexpr double kMargin = 1e-9;

constexpr double kSmoothing = 0.6;  // smoothing of the direction
constexpr double kFade = 0.97;      // fade of what was kept in earlier steps
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
    // Inputs and outputs of the op must be there by then.
    const Rerun rerun = AsRerun(graph, next);
    for (int v : graph.inputs[rerun.op]) from.needed[v] = 1;
    for (int v : graph.outputs[rerun.op]) from.needed[v] = 1;
  }
  return from;
}

// Growth of the bytes on the host at instant `window` by a unit of overhead in
// part 0 (before all instants), 1 (in the first window), and so on.
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
  // The price that the instant behind pays for keeping a value is paid at the
  // new one and given back for having it. Nothing is paid at the first.
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
    window.surcharge.assign(graph.values, 0);
    if (!IsRerun(graph, instants[k])) AddHostRows(host, instants[k], &window);
    if (!moves_) AddSizeRows(&window);
    wanted = window.cut.values();
  }
  for (int v = 0; v < graph.values; ++v) {
    const double share = static_cast<double>(graph.bytes[v]) / budget;
    weight_[v] = std::min(1.0, 4 * std::sqrt(share));
  }
}

// Bytes, and whole multiples of the largest sizes that there is room for.
void SequenceProblem::AddSizeRows(Window* window) {
  const int64_t room = budget_ - window->cut.instant().fixed;
  std::vector<int64_t> sizes;
  for (int v : window->cut.values()) {
    const int64_t bytes = graph_.bytes[v];
    if (bytes > 1 && bytes <= room) sizes.push_back(bytes);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() > kMostSizes) sizes.resize(kMostSizes);
  sizes.insert(sizes.begin(), 1);
  for (int64_t size : sizes) {
    Row row{.size = size};
    for (int v : window->cut.values()) {
      const int64_t count = graph_.bytes[v] / size;
      if (count > 0) row.counts.push_back({v, count});
    }
    window->rows.push_back(std::move(row));
  }
}

void SequenceProblem::AddHostRows(const HostRooms& host, int instant,
                                  Window* window) {
  std::vector<int> first_need(graph_.values, std::numeric_limits<int>::max());
  for (int t = graph_.stages - 1; t > instant - graph_.ops; --t) {
    for (int v : graph_.needs[t]) first_need[v] = t;
  }
  for (const HostRow& at : host.RowsAt(instant)) {
    moves_ = true;
    Row row{.host = at.room};
    for (int v : window->cut.values()) {
      if (first_need[v] <= at.needed_until &&
          graph_.profile->values[v].released >= at.released_from) {
        row.counts.push_back({v, graph_.bytes[v]});
      }
    }
    window->rows.push_back(std::move(row));
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
  FindRooms();
  FindCoupled();
  return true;
}

void SequenceProblem::FindRooms() {
  for (Window& window : windows_) {
    for (Row& row : window.rows) {
      row.room = window.room / row.size;
      if (!moves_) continue;
      row.room = budget_ - window.cut.instant().fixed;
      for (const auto& [v, count] : row.counts) {
        if (window.cut.IsKept(v)) row.room -= count;
      }
    }
  }
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

// The bound at these prices. With parts x0, x1, ... of the overhead the cuts
// say that
//     x1 + x2 + ... >= value - sum of price (room + bytes + growth x),
// so that the sum of all is least where all of it is the part with the largest
// factor in this row.
Time SequenceProblem::Lower(const SequencePrices& prices) {
  double value = 0;
  double terms = 0;
  std::vector<double> factor(windows() + 1, 1);
  factor[0] = 0;
  const auto add = [&](double amount) {
    value += amount;
    terms += std::abs(amount);
  };
  for (int k = 0; k < windows(); ++k) {
    Window& window = windows_[k];
    window.surcharge = prices.coupling[k];
    for (size_t r = 0; r < window.rows.size(); ++r) {
      const Row& row = window.rows[r];
      const double price = prices.memory[k][r];
      if (price <= 0) continue;
      for (const auto& [v, count] : row.counts) {
        window.surcharge[v] += price * static_cast<double>(count);
      }
      add(-price * (row.room + row.host.bytes));
      for (int part = 0; part <= windows(); ++part) {
        factor[part] += price * Growth(row.host, k, part);
      }
    }
    for (int v : window.coupled) add(-prices.coupling[k][v]);
    add(window.cut.Solve(
        {.surcharge = &window.surcharge,
         .reward = k + 1 < windows() ? &prices.coupling[k + 1] : nullptr}));
  }
  const auto most = std::max_element(factor.begin(), factor.end());
  part_ = static_cast<int>(most - factor.begin());
  return std::max(0.0, (value - kMargin * terms) / *most);
}

// Kept beyond the room at an overhead of `bound`, all in the part that helps
// most, in the unit of the row.
double SequenceProblem::Excess(int k, const Row& row, Time bound) const {
  const WindowCut& cut = windows_[k].cut;
  int64_t kept = -row.room;
  for (const auto& [v, count] : row.counts) {
    if (cut.IsOpen(v) && cut.Keeps(v)) kept += count;
  }
  return kept - row.host.bytes - Growth(row.host, k, part_) * bound;
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
      const Row& row = window.rows[r];
      const double share = static_cast<double>(row.size) / budget_;
      add(prices.memory[k][r], Excess(k, row, bound) * share,
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
      go(static_cast<double>(window.rows[r].size) / budget_,
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

// One price for each row that there is now. Decisions remove rows; the price of
// a removed one would be paid without return, and the bound be wrong.
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
  constexpr double kLeast = 1e-3;  // part of the first step's length
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
