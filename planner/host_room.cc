#include "planner/host_room.h"

#include <algorithm>

namespace ebbtide {
namespace {

// Positions at which the sum of what comes before has grown by a quarter: those
// near the begin bind where a lane has little to move yet.
std::vector<int> Growing(const std::vector<int64_t>& sizes) {
  constexpr double kGrowth = 1.25;
  std::vector<int> positions;
  double last = 0;
  double sum = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] == 0) continue;
    if (positions.empty() || sum >= last * kGrowth) {
      positions.push_back(static_cast<int>(k));
      last = sum;
    }
    sum += static_cast<double>(sizes[k]);
  }
  return positions;
}

}  // namespace

HostRooms::HostRooms(const Graph& graph, bool offload)
    : graph_(graph),
      profile_(*graph.profile),
      moves_(offload && profile_.d2h > 0 && profile_.h2d > 0),
      ops_(graph.ops) {
  if (!moves_) return;
  start_ = {0};
  for (const Op& op : profile_.ops) start_.push_back(start_.back() + op.time);
  for (const Stage& stage : profile_.stages) {
    start_.push_back(start_.back() + stage.time);
  }
  for (int t = 0; t < graph.stages; ++t) {
    if (!graph.needs[t].empty()) last_use_ = start_[ops_ + t];
  }
  std::vector<int64_t> released(ops_ + graph.stages + 1, 0);
  for (const Value& value : profile_.values) {
    if (value.movable) released[value.released] += Count(value.bytes);
  }
  late_ = {0};
  double out = 0;  // released before op j ends
  for (int j = 0; j < ops_; ++j) {
    late_.push_back(std::max(late_.back(), profile_.d2h * start_[j + 1] - out));
    out += static_cast<double>(released[j]);
  }
  // Far more than the sums above are off by.
  rounding_ = 1e-12 * std::max(profile_.d2h, profile_.h2d) * start_.back();
}

std::vector<HostRoom> HostRooms::At(int instant) const {
  if (!moves_) return {{}};
  const double out =
      profile_.d2h * start_[instant] - late_[std::min(instant, ops_)];
  // Copies to the device begin between stages.
  const int back = std::max(instant + 1, ops_);
  const double in = profile_.h2d * std::max(0.0, last_use_ - start_[back]);
  std::vector<HostRoom> rooms = {
      {.bytes = out + rounding_, .per_before = profile_.d2h},
      {.bytes = in + rounding_, .per_after = profile_.h2d}};
  if (profile_.host >= Bytes{}) {
    rooms.push_back({.bytes = static_cast<double>(Count(profile_.host))});
  }
  return rooms;
}

std::vector<HostRow> HostRooms::RowsAt(int instant) const {
  std::vector<HostRow> rows;
  if (!moves_) return rows;
  const int stage = instant - ops_;
  std::vector<int64_t> released(ops_, 0);
  for (const Value& value : profile_.values) {
    const bool early = value.released < ops_;
    if (value.movable && early) released[value.released] += Count(value.bytes);
  }
  for (int op : Growing(released)) {
    rows.push_back({.room = Out(instant, op), .released_from = op});
  }
  std::vector<int64_t> needed(graph_.stages, 0);
  std::vector<char> seen(graph_.values, 0);
  for (int t = stage + 1; t < graph_.stages; ++t) {
    for (int v : graph_.needs[t]) {
      if (!seen[v] && graph_.movable[v]) needed[t] += graph_.bytes[v];
      seen[v] = 1;
    }
  }
  for (int t : Growing(needed)) {
    rows.push_back({.room = In(instant, t), .needed_until = t});
  }
  rows.push_back({.room = At(instant)[1]});
  if (profile_.host >= Bytes{}) rows.push_back({.room = At(instant)[2]});
  return rows;
}

// Room for values released by op `from` or later.
HostRoom HostRooms::Out(int instant, int from) const {
  const Time left = start_[instant] - start_[from + 1];
  return {.bytes = profile_.d2h * std::max(0.0, left) + rounding_,
          .per_before = profile_.d2h};
}

// Room for values that must be back when stage `until` begins.
HostRoom HostRooms::In(int instant, int until) const {
  const Time left = start_[ops_ + until] - start_[std::max(instant + 1, ops_)];
  return {.bytes = profile_.h2d * std::max(0.0, left) + rounding_,
          .per_after = profile_.h2d};
}

}  // namespace ebbtide
