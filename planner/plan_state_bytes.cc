// Bytes of a plan's state: what stays between events, and peaks within stages.
#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/plan_state.h"

namespace ebbtide {
namespace {

constexpr int kByStage = 1 << 30;  // read by the stage itself, after all ops

// Events up to the last use; what stays after that stays for nothing.
size_t UsedEvents(const Events& events) {
  size_t count = events.size();
  while (count > 0 && !events[count - 1].used) --count;
  return count;
}

}  // namespace

PlanState::PlanState(const Graph& graph, int64_t budget)
    : graph_(graph),
      budget_(budget),
      lanes_(graph, budget),
      draft_{Retention(graph.values), {}},
      events_(graph.values),
      work_(graph.stages),
      early_(graph.stages),
      forward_peak_({}),
      stage_peak_({}),
      rebuild_time_(graph.stages, 0),
      weight_(graph.stages, 1),
      blocks_((graph.stages + kBlock - 1) / kBlock),
      base_forward_(graph.other),
      base_stage_(graph.stages, 0),
      row_changed_(graph.values, 0),
      events_changed_(graph.values, 0),
      queued_(graph.stages, 0),
      rise_stale_(graph.stages, 0),
      mark_(graph.values, 0),
      op_mark_(graph.ops, 0),
      there_(graph.values, 0),
      stays_(graph.values, 0),
      last_read_(graph.values, -1) {
  tail_ = Count(graph.profile->tail);
  // Bytes that enter or leave before each op and stage; summed up below.
  std::vector<int64_t> forward(graph.ops + 1, 0);
  std::vector<int64_t> stage(graph.stages + 2, 0);
  for (int v = 0; v < graph.values; ++v) {
    if (!graph.saved[v]) continue;
    const int released = graph.profile->values[v].released;
    forward[graph.op[v]] += graph.bytes[v];
    forward[std::min(released + 1, graph.ops)] -= graph.bytes[v];
    stage[0] += graph.bytes[v];
    stage[graph.held[v] + 1] -= graph.bytes[v];
    if (graph.held[v] >= graph.stages) tail_ += graph.bytes[v];
    if (graph.movable[v]) by_release_.push_back(v);
  }
  std::partial_sum(forward.begin(), forward.end(), forward.begin());
  for (int i = 0; i < graph.ops; ++i) base_forward_[i] += forward[i];
  std::partial_sum(stage.begin(), stage.end() - 2, base_stage_.begin());
  std::stable_sort(by_release_.begin(), by_release_.end(), [&](int a, int b) {
    const std::vector<Value>& values = graph.profile->values;
    return values[a].released < values[b].released;
  });
}

int64_t PlanState::peak() const {
  return std::max({tail_, forward_most_, total_.peak});
}

int64_t PlanState::host_excess() const {
  const Bytes room = graph_.profile->host;
  if (room < Bytes{}) return 0;
  return std::max<int64_t>(0, moves_.bytes - Count(room));
}

double PlanState::over() const {
  double over = total_.over;
  if (forward_most_ > budget_) over += 3.0 * (forward_most_ - budget_);
  if (tail_ > budget_) over += 3.0 * (tail_ - budget_);
  if (broken()) over += 1e3 * budget_;
  return over + 3.0 * host_excess();
}

Time PlanState::Stall() {
  if (draft_.offloaded.empty() || broken()) return 0;
  moved_.clear();
  for (int v : by_release_) {
    if (!draft_.offloaded[v]) continue;
    const Events& events = events_[v];
    if (events.size() < 2 || !events[0].bit) continue;
    const auto use =
        std::find_if(events.begin() + 1, events.end(),
                     [](const Event& event) { return event.used; });
    if (use != events.end()) moved_.push_back({v, use->stage});
  }
  if (moved_.empty()) return 0;
  const auto flatten = [](const BlockedPeaks& peaks,
                          std::vector<int64_t>* flat) {
    flat->resize(peaks.size());
    for (int k = 0; k < peaks.size(); ++k) (*flat)[k] = peaks[k];
    return absl::MakeConstSpan(*flat);
  };
  return lanes_.Stall({.forward_peak = flatten(forward_peak_, &forward_flat_),
                       .stage_peak = flatten(stage_peak_, &stage_flat_),
                       .rebuild_time = rebuild_time_,
                       .overhead = total_.time,
                       .moved = moved_});
}

int PlanState::HighestStage() const {
  size_t b = 0;
  while (blocks_[b].peak < total_.peak) ++b;
  int t = static_cast<int>(b) * kBlock;
  while (stage_peak_[t] < total_.peak) ++t;
  return t;
}

void PlanState::Reweigh(double up, double down, double most) {
  for (int t = 0; t < graph_.stages; ++t) {
    weight_[t] = stage_peak_[t] > budget_ ? std::min(most, weight_[t] * up)
                                          : std::max(1.0, weight_[t] * down);
  }
  for (int b = 0; b < stage_peak_.blocks(); ++b) SumStages(b);
  SumBytes();
}

void PlanState::ResetWeights() { Reweigh(1, 0, 1); }

// Where bits of v hold it: from events that have a use after them.
PlanState::Away PlanState::AwayOf(char offloaded, const Row& row) {
  if (!offloaded) return Away::kNo;
  return row.early().empty() ? Away::kMoved : Away::kAskedEarly;
}

PlanState::Away PlanState::AwayOf(int v) const {
  if (draft_.offloaded.empty()) return Away::kNo;
  return AwayOf(draft_.offloaded[v], draft_.bits.row(v));
}

PlanState::Intervals PlanState::IntervalsOf(const Events& events, Away away) {
  Intervals intervals;
  const size_t last = UsedEvents(events);
  for (size_t k = 0; k + 1 < last; ++k) {
    if (!events[k].bit) continue;
    const bool moved = away != Away::kNo && events[k].stage == -1;
    const bool broken = away == Away::kAskedEarly || !events[k + 1].used;
    intervals.push_back(
        {events[k].stage, events[k + 1].stage, moved, moved && broken});
  }
  return intervals;
}

void PlanState::MoveIntervals(const OldEvents& old) {
  const int v = old.value;
  const Intervals was = IntervalsOf(old.events, old.away);
  const Intervals is = IntervalsOf(events_[v], AwayOf(v));
  size_t a = 0;
  size_t b = 0;
  while (a < was.size() || b < is.size()) {
    if (a < was.size() && b < is.size() && was[a] == is[b]) {
      ++a;
      ++b;
    } else if (b == is.size() ||
               (a < was.size() && was[a].begin <= is[b].begin)) {
      Hold(v, was[a++], -1);
    } else {
      Hold(v, is[b++], 1);
    }
  }
}

// Counts the bytes of v over an interval, or no longer.
void PlanState::Hold(int v, const Interval& interval, int sign) {
  const int64_t bytes = sign * graph_.bytes[v];
  const auto add = [&](bool forward, int begin, int end) {
    added_.push_back({forward, begin, end, bytes});
    Add(added_.back(), 1);
  };
  if (interval.begin == -1 && !interval.moved) {
    add(true, graph_.profile->values[v].released + 1, graph_.ops);
  }
  if (interval.moved) moves_.bytes += bytes;
  if (interval.broken) moves_.broken += sign;
  add(false, interval.moved ? interval.end : interval.begin + 1,
      interval.end + 1);
  for (int t : {interval.begin, interval.end}) {
    if (t < 0 || rise_stale_[t]) continue;
    rise_stale_[t] = 1;
    stale_.push_back(t);
  }
}

void PlanState::Add(const Added& added, int sign) {
  BlockedPeaks& peaks = added.forward ? forward_peak_ : stage_peak_;
  peaks.Add(added.begin, added.end, sign * added.bytes);
}

// The peak of stage t above what is there when it begins, anew.
void PlanState::Rise(int t) {
  rise_stale_[t] = 0;
  StageWork& work = work_[t];
  for (const StageWork::Touch& touch : work.touched) {
    const Events& events = events_[touch.value];
    const size_t last = UsedEvents(events);
    const auto at = EventFrom(events, t);
    const size_t k = at - events.begin();
    there_[touch.value] = k > 0 && (at - 1)->bit && k < last;
    stays_[touch.value] = at->bit && k + 1 < last;
  }
  int64_t there = 0;
  int64_t rise = RiseOfRebuilding(t, &there);
  rise = std::max(rise, there + Count(graph_.profile->stages[t].during));
  if (rise == work.rise) return;
  old_rises_.push_back({t, work.rise});
  added_.push_back({false, t, t + 1, rise - work.rise});
  Add(added_.back(), 1);
  work.rise = rise;
}

// `there` counts from what is there when the stage begins.
int64_t PlanState::RiseOfRebuilding(int t, int64_t* there) {
  const std::vector<int>& rebuilt = work_[t].rebuilt;
  const int ops = static_cast<int>(rebuilt.size());
  const int64_t before = Count(graph_.profile->stages[t].before);
  int64_t rise = std::numeric_limits<int64_t>::min();
  for (int k = 0; k < ops; ++k) {
    for (int v : graph_.inputs[rebuilt[k]]) last_read_[v] = k;
  }
  if (ops > 0) {
    for (int v : graph_.needs[t]) last_read_[v] = kByStage;
  }
  for (int k = 0; k < ops; ++k) {
    const int i = rebuilt[k];
    for (int v : graph_.outputs[i]) {
      if (graph_.held[v] >= t || there_[v]) continue;
      there_[v] = 1;
      *there += graph_.bytes[v];
    }
    rise = std::max(rise, before + *there + graph_.scratch[i]);
    const auto drop = [&](int v) {
      if (graph_.held[v] >= t || !there_[v] || stays_[v] || last_read_[v] > k) {
        return;
      }
      there_[v] = 0;
      *there -= graph_.bytes[v];
    };
    for (int v : graph_.inputs[i]) drop(v);
    for (int v : graph_.outputs[i]) drop(v);
  }
  for (int i : rebuilt) {
    for (int v : graph_.inputs[i]) last_read_[v] = -1;
  }
  for (int v : graph_.needs[t]) last_read_[v] = -1;
  return rise;
}

// Weighted bytes above the budget of a block.
void PlanState::SumStages(int b) {
  Block& block = blocks_[b];
  block.peak = stage_peak_.Peak(b);
  block.over = 0;
  if (block.peak <= budget_) return;
  const int end = std::min((b + 1) * kBlock, graph_.stages);
  for (int t = b * kBlock; t < end; ++t) {
    const int64_t excess = stage_peak_[t] - budget_;
    if (excess > 0) block.over += weight_[t] * static_cast<double>(excess);
  }
}

void PlanState::SumTimes() {
  total_.time = 0;
  total_.rebuilt = 0;
  total_.broken = 0;
  for (int b = 0; b < stage_peak_.blocks(); ++b) {
    Block& block = blocks_[b];
    if (!block.time_known) {
      const int begin = b * kBlock;
      const int end = std::min(begin + kBlock, graph_.stages);
      block.time = std::accumulate(rebuild_time_.begin() + begin,
                                   rebuild_time_.begin() + end, Time{0});
      block.time_known = true;
    }
    total_.time += block.time;
    total_.rebuilt += block.rebuilt;
    total_.broken += block.broken;
  }
}

void PlanState::SumBytes() {
  total_.peak = 0;
  total_.over = 0;
  for (int b = 0; b < stage_peak_.blocks(); ++b) {
    if (stage_peak_.TakeChanged(b)) SumStages(b);
    total_.over += blocks_[b].over;
    total_.peak = std::max(total_.peak, blocks_[b].peak);
  }
  forward_most_ = 0;
  for (int b = 0; b < forward_peak_.blocks(); ++b) {
    forward_most_ = std::max(forward_most_, forward_peak_.Peak(b));
  }
}

double PlanState::least_over() const {
  double stale = 0;
  for (int t : stale_) {
    const int64_t excess = stage_peak_[t] - budget_;
    if (excess > 0) stale += weight_[t] * static_cast<double>(excess);
  }
  const double all = over();
  return std::max(0.0, all - stale - 1e-9 * all);
}

}  // namespace ebbtide
