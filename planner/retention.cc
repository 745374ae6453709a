#include "planner/retention.h"

#include <algorithm>

namespace ebbtide {

char Row::Get(int t) const {
  const auto after = std::upper_bound(flips_.begin(), flips_.end(), t);
  return static_cast<char>(first_ ^ ((after - flips_.begin()) & 1));
}

bool Row::Any(int begin, int end) const {
  if (begin >= end) return false;
  const auto next = std::upper_bound(flips_.begin(), flips_.end(), begin);
  return Get(begin) || (next != flips_.end() && *next < end);
}

void Row::Fill(char bit) {
  first_ = bit;
  flips_.clear();
}

void Row::Set(int begin, int end, char bit) {
  if (begin >= end) return;
  const char before = begin > -1 ? Get(begin - 1) : bit;
  const char after = end < kEver ? Get(end) : bit;
  const auto from = std::lower_bound(flips_.begin(), flips_.end(), begin);
  const auto to = std::upper_bound(from, flips_.end(), end);
  auto at = flips_.erase(from, to);
  if (begin <= -1) first_ = bit;
  if (bit != after) at = flips_.insert(at, end);
  if (bit != before) flips_.insert(at, begin);
}

void Row::Shift(int by, int stages) {
  const char loss = first_;
  const Stages old = flips_;
  flips_.clear();
  char bit = first_;
  // Flips that leave at the front leave their bit behind.
  for (int flip : old) {
    if (flip + by > 0) {
      flips_.push_back(flip + by);
    } else {
      bit ^= 1;
    }
  }
  if (bit != loss) flips_.insert(flips_.begin(), 0);
  absl::InlinedVector<int, 2> early;
  for (int t : early_) {
    if (t + by >= 0 && t + by < stages) early.push_back(t + by);
  }
  early_ = std::move(early);
}

void Row::AddEarly(int t) {
  const auto at = std::lower_bound(early_.begin(), early_.end(), t);
  if (at == early_.end() || *at != t) early_.insert(at, t);
}

void Row::RemoveEarly(int t) {
  const auto at = std::lower_bound(early_.begin(), early_.end(), t);
  if (at != early_.end() && *at == t) early_.erase(at);
}

Draft KeepAll(const Graph& graph, bool offload) {
  Draft draft{Retention(graph.values), {}};
  for (int v = 0; v < graph.values; ++v) draft.bits.SetRow(v, 1);
  if (offload) draft.offloaded.assign(graph.values, 0);
  return draft;
}

}  // namespace ebbtide
