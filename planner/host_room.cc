#include "planner/host_room.h"

#include <algorithm>

namespace ebbtide {

HostRooms::HostRooms(const Graph& graph, bool offload)
    : profile_(*graph.profile),
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

}  // namespace ebbtide
