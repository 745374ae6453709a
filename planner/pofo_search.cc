#include "planner/pofo_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace ebbtide {
namespace {

constexpr double kSlack = 1e-6;  // slack of sums of slots
constexpr Time kNever = std::numeric_limits<Time>::infinity();
// One label for each cell of a grid this fine goes on.
constexpr int64_t kGrid = 200;
// So many amounts are tried where any number of slots may have been copied.
constexpr int64_t kAmounts = 64;
// With the latest item, as it decides how a backlog is rounded up.
using Cell = std::tuple<int, bool, int64_t, int64_t, int64_t, int64_t, int64_t>;

Cell CellOf(const PofoLabel& label, int64_t grain) {
  return {label.way,
          label.offloaded,
          label.kept / grain,
          static_cast<int64_t>(label.leaving) / grain,
          static_cast<int64_t>(label.due) / grain,
          label.latest,
          label.host / grain};
}

// The least of ascending sums of whole items that is not below `slots`.
int64_t RoundUp(const std::vector<int64_t>& sums, double slots) {
  const auto at = std::lower_bound(sums.begin(), sums.end(), slots - kSlack);
  return at == sums.end() ? sums.back() : *at;
}

int64_t RoundDown(const std::vector<int64_t>& sums, int64_t slots) {
  return *std::prev(std::upper_bound(sums.begin(), sums.end(), slots));
}

}  // namespace

// The lane out while the forward ops of an arc run.
struct PofoSearch::Lane {
  Time clock = 0;
  double left = 0;                   // slots to be copied out
  const std::vector<int64_t>* sums;  // sums of offloaded items, the latest
                                     // first
};

PofoSearch::PofoSearch(const SlotChain& chain, const SegmentTable& table,
                       const PofoLimits& limits, size_t most_labels)
    : c_(chain),
      table_(table),
      limits_(limits),
      most_labels_(most_labels),
      grain_(std::max<int64_t>(1, limits.room / kGrid)),
      at_(chain.stages + 1) {
  MakeBounds();
  AddLabels({.size = chain.x[0]});
  bound_ = labels_[0].estimate;
  for (std::vector<int>& labels : at_) {
    Thin(&labels);
    for (int index : labels) Expand(index);
  }
  std::stable_sort(ends_.begin(), ends_.end(),
                   [](const PofoEnd& a, const PofoEnd& b) {
                     return a.estimate < b.estimate;
                   });
}

// Least time from a node on, where bytes may be bought by waiting for the lane.
void PofoSearch::MakeBounds() {
  for (int node = 0; node <= c_.stages; ++node) {
    std::vector<Time>& bound = bounds_.emplace_back(c_.slots + 1);
    Time next = kNever;
    for (int64_t m = c_.slots; m >= 0; --m) {
      next = std::min(next + 1 / limits_.d2h,
                      table_.TimeOf({node, c_.stages, 0}, m));
      bound[m] = next;
    }
  }
}

// The lane can do no more for the rest of the plan than add what it copies in
// the time of the rest of the forward ops.
Time PofoSearch::BoundFrom(const PofoLabel& label) const {
  const Time forward = c_.walked[c_.stages] - c_.walked[label.node];
  double m = static_cast<double>(limits_.room - label.kept - label.size) +
             limits_.d2h * forward - label.leaving;
  Time wait = 0;
  if (m < 0) wait = -m / limits_.d2h;
  m = std::clamp(std::ceil(m), 0.0, static_cast<double>(c_.slots));
  return label.cost + wait + bounds_[label.node][static_cast<size_t>(m)];
}

// 0 and the sums of the latest items on the host, up to the first that is not
// below `most`; or amounts up to there where bytes move one by one.
std::vector<int64_t> PofoSearch::Sums(const PofoLabel& label, bool with_item,
                                      double most) const {
  std::vector<int64_t> sums = {0};
  if (limits_.continuous) {
    const auto end = static_cast<int64_t>(std::ceil(most - kSlack));
    const int64_t step = 1 + end / kAmounts;
    while (sums.back() < end) sums.push_back(std::min(end, sums.back() + step));
    return sums;
  }
  const PofoLabel* at = &label;
  if (!with_item) at = at->parent < 0 ? nullptr : &labels_[at->parent];
  while (at != nullptr && static_cast<double>(sums.back()) < most - kSlack) {
    if (at->offloaded) sums.push_back(sums.back() + at->size);
    at = at->parent < 0 ? nullptr : &labels_[at->parent];
  }
  return sums;
}

// `due`: sums of the items that are to be back.
PofoSegment PofoSearch::Inner(const PofoLabel& label,
                              const std::vector<int64_t>& due,
                              const ChainCell& cell) const {
  const int64_t room = limits_.room - label.kept - label.size;
  PofoSegment best;
  // Some of the due items are there all along and the rest arrives in a stall.
  for (auto there = due.rbegin(); there != due.rend(); ++there) {
    const int64_t slots = room - *there;
    if (slots < 0) continue;
    const double rest = std::max(0.0, label.due - static_cast<double>(*there));
    const Time time = table_.TimeOf(cell, slots) + rest / limits_.h2d;
    if (time < best.time) best = {slots, time};
  }
  return best;
}

PofoSegment PofoSearch::Last(const PofoLabel& label) const {
  const double item = label.offloaded ? static_cast<double>(label.size) : 0;
  const std::vector<int64_t> out = Sums(label, true, label.leaving + item);
  const std::vector<int64_t> back = Sums(label, false, label.due);
  PofoSegment best;
  for (int64_t stays : out) {
    for (int64_t there : back) {
      const PofoSegment last = LastWith(label, stays, there);
      if (last.time < best.time) best = last;
    }
  }
  return best;
}

// With so many slots of what is still leaving on the device until the loss, and
// so many of what has to be back from there on.
PofoSegment PofoSearch::LastWith(const PofoLabel& label, int64_t stays,
                                 int64_t there) const {
  const int64_t item = label.offloaded ? label.size : 0;
  const double leaving = label.leaving + static_cast<double>(item);
  const int64_t room = limits_.room - label.kept - label.size;
  const int64_t slots =
      std::min(room + item - std::max(stays, item), room - there);
  if (slots < 0) return {};
  const Time time = table_.TimeOf({label.node, c_.stages, 0}, slots);
  const Time forward = c_.walked[c_.stages] - c_.walked[label.node];
  const double first = std::max(0.0, leaving - static_cast<double>(stays));
  const Time drain =
      std::max(0.0, leaving - first - limits_.d2h * forward) / limits_.d2h;
  const double last = std::max(0.0, label.due - static_cast<double>(there));
  const double late =
      std::max(0.0, label.due - last - limits_.h2d * (time - forward));
  return {slots,
          time + first / limits_.d2h + drain + (last + late) / limits_.h2d};
}

// The best label of each cell of a grid; of those, by estimate, the ones that
// none before them beats.
void PofoSearch::Thin(std::vector<int>* labels) const {
  // Many estimates are equal but for what adding in another order does.
  const Time tick = 1e-9 * bound_;
  const auto rank = [this, tick](int index) {
    const PofoLabel& label = labels_[index];
    return std::pair(std::round(label.estimate / tick),
                     label.leaving + label.due);
  };
  const auto is_better = [&](int a, int b) { return rank(a) < rank(b); };
  std::stable_sort(labels->begin(), labels->end(), is_better);
  absl::flat_hash_set<Cell> cells;
  std::vector<int> kept;
  for (int index : *labels) {
    const PofoLabel& label = labels_[index];
    if (label.estimate >= best_ || kept.size() == most_labels_) break;
    if (!cells.insert(CellOf(label, grain_)).second) continue;
    if (!IsBeaten(label, kept)) kept.push_back(index);
  }
  *labels = std::move(kept);
}

bool PofoSearch::IsBeaten(const PofoLabel& label,
                          const std::vector<int>& by) const {
  const bool host_matters = limits_.host < std::numeric_limits<int64_t>::max();
  return std::any_of(by.begin(), by.end(), [&](int index) {
    const PofoLabel& other = labels_[index];
    return other.way == label.way && other.offloaded == label.offloaded &&
           other.kept <= label.kept &&
           other.leaving <= label.leaving + kSlack &&
           other.due <= label.due + kSlack && other.latest <= label.latest &&
           other.cost <= label.cost + kSlack &&
           (!host_matters || other.host <= label.host);
  });
}

// Waits until what is still leaving fits into `room`, which must hold `least`.
bool PofoSearch::Wait(int64_t room, int64_t least, Lane* lane) const {
  if (room < least) return false;
  if (RoundUp(*lane->sums, lane->left) <= room) return true;
  const auto stays = static_cast<double>(RoundDown(*lane->sums, room));
  lane->clock += (lane->left - stays) / limits_.d2h;
  lane->left = stays;
  return true;
}

void PofoSearch::Run(Time time, Lane* lane) const {
  lane->clock += time;
  lane->left = std::max(0.0, lane->left - limits_.d2h * time);
}

void PofoSearch::Expand(int index) {
  const PofoLabel label = labels_[index];
  AddEnd(index);
  const int64_t item = label.offloaded ? label.size : 0;
  const double leaving = label.leaving + static_cast<double>(item);
  const std::vector<int64_t> sums = Sums(label, true, leaving);
  const std::vector<int64_t> due = Sums(label, false, label.due);
  Lane lane{.left = leaving, .sums = &sums};
  const int64_t fixed = label.kept + label.size - item;
  for (int k = label.node; k < c_.stages; ++k) {
    // The item stays for its reader, the first op.
    const int64_t least = k == label.node ? item : 0;
    const int64_t room = limits_.room - fixed - (k > label.node ? c_.x[k] : 0);
    for (size_t w = 0; w < c_.ways[k].size(); ++w) {
      const SlotWay& way = c_.ways[k][w];
      Lane saving = lane;
      if (!Wait(room - way.keeps - way.ft, least, &saving)) continue;
      Run(way.fw, &saving);
      const int as = static_cast<int>(w);
      AddChildren(index, k + 1, as, way.keeps, saving,
                  Inner(label, due, {label.node, k, as + 1}).time);
    }
    if (!Wait(room - c_.x[k + 1] - c_.ft[k], least, &lane)) break;
    Run(c_.walked[k + 1] - c_.walked[k], &lane);
    AddChildren(index, k + 1, -1, c_.x[k + 1], lane,
                Inner(label, due, {label.node, k, 0}).time);
  }
}

void PofoSearch::AddChildren(int index, int node, int way, int64_t size,
                             const Lane& lane, Time inner) {
  if (inner == kNever) return;
  const PofoLabel parent = labels_[index];
  PofoLabel child;
  child.node = node;
  child.way = way;
  child.size = size;
  child.kept = parent.kept + (parent.offloaded ? 0 : parent.size);
  child.leaving = lane.left;
  child.due = std::max(0.0, parent.due - limits_.h2d * inner) +
              static_cast<double>(parent.offloaded ? parent.size : 0);
  child.cost = parent.cost + lane.clock + inner;
  child.parent = index;
  child.host = parent.host;
  child.latest = parent.latest;
  AddLabels(child);
}

// The label with its item kept, and with it on the host.
void PofoSearch::AddLabels(PofoLabel label) {
  label.estimate = BoundFrom(label);
  if (label.estimate >= best_) return;
  const auto add = [this](const PofoLabel& one) {
    at_[one.node].push_back(static_cast<int>(labels_.size()));
    labels_.push_back(one);
  };
  add(label);
  // The loss reads the last one and its backward comes at once.
  if (label.node == c_.stages || label.size == 0) return;
  label.offloaded = true;
  label.host += label.size;
  label.latest = label.size;
  if (label.host <= limits_.host) add(label);
}

void PofoSearch::AddEnd(int index) {
  const PofoSegment last = Last(labels_[index]);
  if (last.slots < 0) return;
  ends_.push_back({index, labels_[index].cost + last.time});
  best_ = std::min(best_, ends_.back().estimate);
}

}  // namespace ebbtide
