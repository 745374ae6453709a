#include "planner/time_spread.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ebbtide {
namespace {

constexpr int kLeastSteps = 3;

// The one in the middle; of an even number the lower one. Reorders.
Time MedianOf(std::vector<Time>* times) {
  const auto middle = times->begin() + (times->size() - 1) / 2;
  std::nth_element(times->begin(), middle, times->end());
  return *middle;
}

void PoolGroup(const std::vector<TimedOp*>& group) {
  std::vector<Time> times;
  std::vector<Time> medians;
  std::vector<Time> quartiles;
  for (const TimedOp* op : group) {
    times.push_back(op->time);
    medians.push_back(op->spread.median);
    quartiles.push_back(op->spread.quartiles);
  }
  const Time time = MedianOf(&times);
  const Time median = MedianOf(&medians);
  const Time spread = MedianOf(&quartiles);
  for (TimedOp* op : group) {
    if (std::abs(op->time - time) > std::max(op->spread.quartiles, spread)) {
      continue;
    }
    op->time = time;
    op->spread.median = median;
    op->spread.quartiles = spread;
  }
}

// `group` has the ops of a key that were measured in few steps.
void LeaveOutWaits(const std::vector<TimedOp*>& group) {
  std::vector<Time> times;
  for (const TimedOp* op : group) times.push_back(op->time);
  const Time time = MedianOf(&times);
  for (TimedOp* op : group) {
    if (op->time > kWaited * time) op->time = time;
  }
}

}  // namespace

TimeSpread Sum(const TimeSpread& a, const TimeSpread& b) {
  return {.steps = std::min(a.steps, b.steps),
          .median = a.median + b.median,
          .quartiles = a.quartiles + b.quartiles,
          .most = a.most + b.most};
}

void TimeSamples::Add(Time time) {
  least_ = added_ == 0 ? time : std::min(least_, time);
  last_[added_++ % kKept] = static_cast<float>(time);
}

TimeSpread TimeSamples::Spread() const {
  if (added_ == 0) return {};
  const int known = static_cast<int>(std::min<int64_t>(added_, kKept));
  std::vector<float> sorted(last_.begin(), last_.begin() + known);
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](int quarter) {
    return Time{sorted[quarter * (known - 1) / 4]};
  };
  return {.steps = known,
          .median = at(2),
          .quartiles = at(3) - at(1),
          .most = at(4)};
}

void PoolTimes(std::vector<TimedOp>* ops) {
  std::map<uint64_t, std::vector<TimedOp*>> known;
  std::map<uint64_t, std::vector<TimedOp*>> fresh;
  for (TimedOp& op : *ops) {
    const int steps = op.spread.steps;
    if (steps == 0) continue;
    (steps < kLeastSteps ? fresh : known)[op.key].push_back(&op);
  }
  for (const auto& [key, group] : known) {
    if (group.size() > 1) PoolGroup(group);
  }
  for (const auto& [key, group] : fresh) LeaveOutWaits(group);
}

}  // namespace ebbtide
