#include "planner/pair_ascent.h"

#include <algorithm>
#include <cmath>

namespace ebbtide {
namespace {

// Of the sum of all terms of a bound, as room for what double arithmetic
// rounds: a sum of n terms is off by less than n 2^-53 of it.
constexpr double kMargin = 1e-9;

constexpr double kSmoothing = 0.6;  // of the direction
constexpr double kFade = 0.97;      // of what was kept in earlier steps

std::vector<int> Wanted(const Graph& graph, const WindowCut& second) {
  std::vector<int> wanted;
  for (int v = 0; v < graph.values; ++v) {
    if (second.Has(v)) wanted.push_back(v);
  }
  return wanted;
}

Instant SecondInstant(const Graph& graph, int second) {
  if (!IsRerun(graph, second)) {
    return AtInstant(graph, second, graph.stages - 1);
  }
  const Rerun rerun = AsRerun(graph, second);
  return AtRerun(graph, rerun.op, rerun.stage);
}

Instant FirstInstant(const Graph& graph, int first, int second) {
  if (!IsRerun(graph, second)) {
    return AtInstant(graph, first, second - graph.ops);
  }
  // What the op reads and makes must be had by then.
  Instant instant = AtInstant(graph, first, first - graph.ops);
  const Rerun rerun = AsRerun(graph, second);
  for (int v : graph.inputs[rerun.op]) instant.needed[v] = 1;
  for (int v : graph.outputs[rerun.op]) instant.needed[v] = 1;
  return instant;
}

// What a unit of overhead does for the bytes on the host at instant `window`
// in part 0 (before both instants), 1 (between them) or 2 (after both).
double Growth(const HostRoom& host, int window, int part) {
  return part <= window ? host.per_before : host.per_after;
}

}  // namespace

PairProblem::PairProblem(const Graph& graph, int64_t budget,
                         const HostRooms& host, int first, int second)
    : graph_(graph),
      budget_(budget),
      host_{host.At(first), host.At(IsRerun(graph, second) ? first : second)},
      second_(graph, SecondInstant(graph, second), {}),
      first_(graph, FirstInstant(graph, first, second), Wanted(graph, second_)),
      weight_(graph.values) {
  for (const auto& rooms : host_) {
    for (const HostRoom& h : rooms) {
      moves_ = moves_ || h.bytes + h.per_before + h.per_after > 0;
    }
  }
  for (int v = 0; v < graph.values; ++v) {
    const double share = static_cast<double>(graph.bytes[v]) / budget;
    weight_[v] = std::min(1.0, 4 * std::sqrt(share));
  }
}

bool PairProblem::Decide(const std::vector<PairDecision>& decisions) {
  for (int j : {0, 1}) {
    window_[j]->Reset();
    room_[j] = budget_ - window_[j]->instant().fixed;
  }
  for (const PairDecision& d : decisions) {
    WindowCut& window = *window_[d.window];
    if (!d.keep) {
      window.Drop(d.value);
      continue;
    }
    window.Keep(d.value);
    room_[d.window] -= graph_.bytes[d.value];
    if (d.window == 1) first_.Need(d.value);
  }
  if (!moves_ && !DropOversize()) return false;
  FindCoupled();
  return true;
}

// A value larger than what is left is not kept.
bool PairProblem::DropOversize() {
  for (int j : {0, 1}) {
    if (room_[j] < 0) return false;
    for (int v : window_[j]->values()) {
      if (window_[j]->IsOpen(v) && graph_.bytes[v] > room_[j]) {
        window_[j]->Drop(v);
      }
    }
  }
  return true;
}

// A row whose value is had in the first window anyway holds by itself, and so
// does one whose value is not kept at the second instant.
void PairProblem::FindCoupled() {
  coupled_.clear();
  for (int v : second_.values()) {
    if (!first_.Has(v) || first_.IsNeeded(v) || first_.IsKept(v)) continue;
    if (second_.IsOpen(v) || !second_.CanRebuild(v)) coupled_.push_back(v);
  }
}

// The bound at these prices. With parts x0, x1 and x2 of the overhead the cuts
// say that
//     x1 + x2 >= cuts - rewards - sum of price (room + bytes + growth x),
// so that the sum of the three is least where all of it is the part with the
// largest factor in this row.
Time PairProblem::Lower(const PairPrices& prices) {
  double value = first_.Solve(
      {.per_byte = prices.per_byte[0], .reward = &prices.coupling});
  value += second_.Solve(
      {.per_byte = prices.per_byte[1], .surcharge = &prices.coupling});
  double terms = value;
  for (int v : coupled_) {
    value -= prices.coupling[v];
    terms += prices.coupling[v];
  }
  Time best = 0;
  part_ = 2;
  for (const HostRoom& one : host_[0]) {
    for (const HostRoom& two : host_[1]) {
      const double paid[2] = {prices.per_byte[0] * (room_[0] + one.bytes),
                              prices.per_byte[1] * (room_[1] + two.bytes)};
      const double all = terms + std::abs(paid[0]) + std::abs(paid[1]);
      const double missing = value - paid[0] - paid[1] - kMargin * all;
      double factor[3] = {};
      for (int part : {0, 1, 2}) {
        factor[part] = (part > 0) + prices.per_byte[0] * Growth(one, 0, part) +
                       prices.per_byte[1] * Growth(two, 1, part);
      }
      const auto* most = std::max_element(factor, factor + 3);
      if (missing / *most <= best) continue;
      best = missing / *most;
      part_ = static_cast<int>(most - factor);
    }
  }
  return best;
}

// Bytes kept beyond the room at an overhead of `bound`, all in the part that
// helps most.
double PairProblem::Excess(int window, Time bound) const {
  double room = HUGE_VAL;
  for (const HostRoom& h : host_[window]) {
    room = std::min(room, h.bytes + Growth(h, window, part_) * bound);
  }
  return static_cast<double>(window_[window]->KeptBytes()) - room_[window] -
         room;
}

// The subgradient at what the last cuts chose, each row in units of its own:
// rows of bytes by the budget, the others by the size of their value.
void PairProblem::Direct(const PairPrices& prices, Time bound, bool first,
                         Step* step) {
  const double old = first ? 0 : kSmoothing;
  step->norm = 0;
  for (int j : {0, 1}) {
    step->per_byte[j] =
        old * step->per_byte[j] + (1 - old) * Excess(j, bound) / budget_;
    step->norm += step->per_byte[j] * step->per_byte[j];
  }
  for (int v : coupled_) {
    double up = weight_[v] * (second_.Keeps(v) - first_.Got(v));
    if (prices.coupling[v] <= 0) up = std::max(up, 0.0);
    double& direction = step->coupling[v];
    direction = old * direction + (1 - old) * up;
    step->norm += direction * direction;
  }
}

void PairProblem::NoteKept() {
  kept_weight_ = kept_weight_ * kFade + 1;
  for (int j : {0, 1}) {
    for (int v : window_[j]->values()) {
      kept_[j][v] = kept_[j][v] * kFade + window_[j]->Keeps(v);
    }
  }
}

PairDecision PairProblem::Branch() const {
  PairDecision best{.value = -1};
  double best_score = 0;
  for (bool wavering : {true, false}) {
    for (int j : {0, 1}) {
      for (int v : window_[j]->values()) {
        if (!window_[j]->IsOpen(v)) continue;
        const double share = kept_[j][v] / std::max(1.0, kept_weight_);
        const double score = (wavering ? std::min(share, 1 - share) : 1.0) *
                             static_cast<double>(graph_.bytes[v]);
        if (score <= best_score) continue;
        best_score = score;
        best = {.window = j, .value = v};
      }
    }
    if (best.value >= 0) break;
  }
  return best;
}

void PairProblem::Ascend(int steps, Time upper,
                         const std::function<bool()>& stop,
                         PairAscent* ascent) {
  constexpr int kPatience = 12;    // steps without gain
  constexpr double kLeast = 1e-3;  // of the first step's length
  for (int j : {0, 1}) kept_[j].assign(graph_.values, 0);
  kept_weight_ = 0;
  PairPrices prices = ascent->prices;
  prices.coupling.resize(graph_.values, 0);
  ascent->prices.coupling.resize(graph_.values, 0);
  // Decisions take rows away; the price of none would be paid without return,
  // and the bound be wrong.
  std::vector<double> coupling(graph_.values, 0);
  for (int v : coupled_) coupling[v] = prices.coupling[v];
  prices.coupling = coupling;
  Step step;
  step.coupling.assign(graph_.values, 0);
  double length = 1;
  int idle = 0;
  for (int k = 0; k < steps && !stop(); ++k) {
    const Time bound = Lower(prices);
    NoteKept();
    if (bound > ascent->bound * (1 + 1e-7)) {
      *ascent = {.bound = bound, .prices = prices};
      idle = 0;
      if (bound >= upper) break;
    } else if (++idle >= kPatience) {
      length *= 0.6;
      idle = 0;
      for (int j : {0, 1}) prices.per_byte[j] = ascent->prices.per_byte[j];
      for (int v : coupled_) prices.coupling[v] = ascent->prices.coupling[v];
      if (length < kLeast) break;
    }
    Direct(prices, bound, k == 0, &step);
    if (step.norm < 1e-18) break;
    const double most =
        0.3 * length * std::max(upper - bound, 1e-6 * upper) / step.norm;
    for (int j : {0, 1}) {
      double& price = prices.per_byte[j];
      price = std::max(0.0, price + most * step.per_byte[j] / budget_);
    }
    for (int v : coupled_) {
      double& price = prices.coupling[v];
      price = std::max(0.0, price + most * step.coupling[v] * weight_[v]);
    }
  }
  ascent->branch = Branch();
}

}  // namespace ebbtide
