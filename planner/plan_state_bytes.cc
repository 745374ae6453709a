// Bytes of a plan's state: what stays between events, and peaks within stages.
#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/plan_state.h"

namespace ebbtide {
namespace {

constexpr int kByStage = 1 << 30;  // read by the stage itself, after all ops

}  // namespace

PlanState::PlanState(const Graph& graph, int64_t budget)
    : graph_(graph),
      budget_(budget),
      lanes_(graph, budget),
      draft_{Retention(graph.values), {}},
      events_(graph.values),
      work_(graph.stages),
      early_(graph.stages),
      rebuild_time_(graph.stages, 0),
      weight_(graph.stages, 1),
      blocks_((graph.stages + kBlock - 1) / kBlock),
      forward_blocks_((graph.ops + kBlock - 1) / kBlock, 0),
      base_forward_(graph.other),
      base_stage_(graph.stages, 0),
      row_changed_(graph.values, 0),
      events_changed_(graph.values, 0),
      queued_(graph.stages, 0),
      rise_stale_(graph.stages, 0),
      block_stale_(blocks_.size(), 1),
      forward_stale_(forward_blocks_.size(), 1),
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
    if (graph.movable[v] && graph.held[v] < 0) by_release_.push_back(v);
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
  return lanes_.Stall({.forward_peak = forward_peak_,
                       .stage_peak = stage_peak_,
                       .rebuild_time = rebuild_time_,
                       .overhead = total_.time,
                       .moved = moved_});
}

void PlanState::Reweigh(double up, double down, double most) {
  for (int t = 0; t < graph_.stages; ++t) {
    weight_[t] = stage_peak_[t] > budget_ ? std::min(most, weight_[t] * up)
                                          : std::max(1.0, weight_[t] * down);
  }
  std::fill(block_stale_.begin(), block_stale_.end(), 1);
  SumBlocks();
}

void PlanState::ResetWeights() {
  std::fill(weight_.begin(), weight_.end(), 1);
  std::fill(block_stale_.begin(), block_stale_.end(), 1);
  SumBlocks();
}

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
  size_t last = events.size();
  while (last > 0 && !events[last - 1].used) --last;
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
  std::vector<int64_t>& peaks = added.forward ? forward_peak_ : stage_peak_;
  std::vector<char>& stale = added.forward ? forward_stale_ : block_stale_;
  const int64_t bytes = sign * added.bytes;
  for (int k = added.begin; k < added.end; ++k) peaks[k] += bytes;
  if (added.begin >= added.end) return;
  std::fill(stale.begin() + added.begin / kBlock,
            stale.begin() + (added.end - 1) / kBlock + 1, 1);
}

// The peak of stage t above what is there when it begins, anew.
void PlanState::Rise(int t) {
  rise_stale_[t] = 0;
  StageWork& work = work_[t];
  for (const StageWork::Touch& touch : work.touched) {
    const Events& events = events_[touch.value];
    size_t last = events.size();
    while (last > 0 && !events[last - 1].used) --last;
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

void PlanState::SumStages(int block) {
  Block& sum = blocks_[block];
  sum = {};
  const int end = std::min((block + 1) * kBlock, graph_.stages);
  for (int t = block * kBlock; t < end; ++t) {
    sum.time += rebuild_time_[t];
    sum.peak = std::max(sum.peak, stage_peak_[t]);
    const int64_t excess = stage_peak_[t] - budget_;
    if (excess > 0) sum.over += weight_[t] * static_cast<double>(excess);
    sum.rebuilt += static_cast<int>(work_[t].rebuilt.size());
    sum.broken += work_[t].broken;
  }
}

void PlanState::SumForward(int block) {
  const auto begin = forward_peak_.begin() + block * kBlock;
  const auto end =
      forward_peak_.begin() + std::min((block + 1) * kBlock, graph_.ops);
  forward_blocks_[block] = std::max<int64_t>(0, *std::max_element(begin, end));
}

void PlanState::SumBlocks() {
  total_ = {};
  for (size_t b = 0; b < blocks_.size(); ++b) {
    if (block_stale_[b]) SumStages(static_cast<int>(b));
    block_stale_[b] = 0;
    total_.time += blocks_[b].time;
    total_.over += blocks_[b].over;
    total_.peak = std::max(total_.peak, blocks_[b].peak);
    total_.rebuilt += blocks_[b].rebuilt;
    total_.broken += blocks_[b].broken;
  }
  forward_most_ = 0;
  for (size_t b = 0; b < forward_blocks_.size(); ++b) {
    if (forward_stale_[b]) SumForward(static_cast<int>(b));
    forward_stale_[b] = 0;
    forward_most_ = std::max(forward_most_, forward_blocks_[b]);
  }
}

}  // namespace ebbtide
