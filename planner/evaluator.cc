#include "planner/evaluator.h"

#include <algorithm>

namespace ebbtide {
namespace {

using Do = Action::Do;

constexpr int kByStage = 1 << 30;  // read by the stage itself, after all ops

// Plans that run more ops again are given up: dropping every value of a graph
// of n ops runs n * n / 2.
constexpr size_t kMostRebuilt = 1 << 20;

// Values of resident_.
constexpr char kAway = 0;
constexpr char kCounted = 1;
constexpr char kOnHost = 2;

struct NoSink {
  void Act(Do, int) {}
  void BeforeStage(int) {}
};

struct ActionSink {
  std::vector<Action> actions;
  const std::vector<std::vector<int>>& restore_before;

  void Act(Do what, int index) { actions.push_back({what, index}); }
  void BeforeStage(int t) {
    for (int v : restore_before[t]) Act(Do::kRestore, v);
  }
};

}  // namespace

int64_t HostExcess(const Graph& graph, const Evaluation& evaluation) {
  const Bytes room = graph.profile->host;
  if (room < Bytes{}) return 0;
  int64_t bytes = 0;
  for (const Transfer& t : evaluation.moved) bytes += graph.bytes[t.value];
  return std::max<int64_t>(0, bytes - Count(room));
}

Evaluator::Evaluator(const Graph& graph)
    : graph_(graph),
      early_(graph.stages),
      live_(graph.values),
      marked_(graph.values, 0),
      op_marked_(graph.ops, 0),
      resident_(graph.values),
      last_read_(graph.values, -1),
      arrivals_(graph.stages) {}

void Evaluator::Evaluate(const Draft& draft, Evaluation* result) {
  NoSink sink;
  Follow(draft.bits, result);
  Measure(draft, result, sink);
}

std::vector<Action> Evaluator::Actions(
    const Draft& draft, const std::vector<std::vector<int>>& restore_before,
    Evaluation* result) {
  ActionSink sink{{}, restore_before};
  Follow(draft.bits, result);
  Measure(draft, result, sink);
  return std::move(sink.actions);
}

// First pass: finds the recomputed ops and the uses of each value.
void Evaluator::Follow(const Retention& retention, Evaluation* result) {
  result->rebuilt.clear();
  result->touched.clear();
  result->rebuilt_begin.assign(1, 0);
  result->touched_begin.assign(1, 0);
  result->first_use.assign(graph_.values, graph_.stages);
  result->last_use.assign(graph_.values, -1);
  result->rebuild_time.assign(graph_.stages, 0);
  result->overhead = 0;
  result->broken = false;
  for (auto& list : early_) list.clear();
  for (int v = 0; v < graph_.values; ++v) {
    live_[v] =
        graph_.held[v] >= 0 || (graph_.keepable[v] && retention.Get(v, -1));
    for (int t : retention.row(v).early()) early_[t].push_back(v);
  }
  for (int t = 0; t < graph_.stages; ++t) {
    if (result->rebuilt.size() <= kMostRebuilt) {
      FollowStage(retention, t, result);
      continue;
    }
    result->broken = true;
    result->rebuilt_begin.push_back(static_cast<int>(result->rebuilt.size()));
    result->touched_begin.push_back(static_cast<int>(result->touched.size()));
  }
}

void Evaluator::FollowStage(const Retention& retention, int t,
                            Evaluation* result) {
  const size_t first_op = result->rebuilt.size();
  const size_t first_value = result->touched.size();
  Close(t, result);
  std::sort(result->rebuilt.begin() + first_op, result->rebuilt.end());
  for (size_t k = first_op; k < result->rebuilt.size(); ++k) {
    const int i = result->rebuilt[k];
    op_marked_[i] = 0;
    result->overhead += graph_.time[i];
    result->rebuild_time[t] += graph_.time[i];
    for (int v : graph_.outputs[i]) {
      if (marked_[v]) continue;
      marked_[v] = 1;
      result->touched.push_back(v);
    }
  }
  for (size_t k = first_value; k < result->touched.size(); ++k) {
    const int v = result->touched[k];
    marked_[v] = 0;
    if (graph_.held[v] < t) live_[v] = retention.Get(v, t);
  }
  for (int v : graph_.released_stage[t]) {
    live_[v] = graph_.keepable[v] && retention.Get(v, t);
  }
  result->rebuilt_begin.push_back(static_cast<int>(result->rebuilt.size()));
  result->touched_begin.push_back(static_cast<int>(result->touched.size()));
}

// Notes a use of v before or in stage t; missing values are to be recomputed.
void Evaluator::Add(int v, int t, Evaluation* result) {
  if (marked_[v]) return;
  marked_[v] = 1;
  result->touched.push_back(v);
  result->first_use[v] = std::min(result->first_use[v], t);
  result->last_use[v] = t;
  const int i = graph_.op[v];
  if (live_[v] || op_marked_[i]) return;
  if (!graph_.replayable[i]) {
    result->broken = true;
    return;
  }
  op_marked_[i] = 1;
  result->rebuilt.push_back(i);
  queue_.push_back(i);
}

void Evaluator::Close(int t, Evaluation* result) {
  queue_.clear();
  for (int v : graph_.needs[t]) Add(v, t, result);
  for (int v : early_[t]) Add(v, t, result);
  for (size_t k = 0; k < queue_.size(); ++k) {
    for (int v : graph_.inputs[queue_[k]]) Add(v, t, result);
  }
}

bool Evaluator::Kept(const Retention& retention, const Evaluation& result,
                     int v) const {
  return graph_.keepable[v] && retention.Get(v, -1) && result.last_use[v] >= 0;
}

// True if v, there at the end of stage t, stays.
bool Evaluator::Stays(const Retention& retention, const Evaluation& result,
                      int v, int t) const {
  if (graph_.held[v] > t) return true;
  if (graph_.held[v] == t && !graph_.keepable[v]) return false;
  return retention.Get(v, t) && result.last_use[v] > t;
}

template <class Sink>
void Evaluator::Drop(int v, Sink& sink) {
  if (resident_[v] != kCounted) return;
  resident_[v] = kAway;
  current_ -= graph_.bytes[v];
  sink.Act(Do::kFree, v);
}

// Second pass: the bytes, now that every last use is known.
template <class Sink>
void Evaluator::Measure(const Draft& draft, Evaluation* result, Sink& sink) {
  std::fill(resident_.begin(), resident_.end(), kAway);
  current_ = 0;
  result->forward_peak.resize(graph_.ops);
  result->stage_peak.resize(graph_.stages);
  result->peak = 0;
  result->moved.clear();
  for (auto& list : arrivals_) list.clear();
  MeasureForward(draft, result, sink);
  for (int t = 0; t < graph_.stages; ++t) {
    sink.BeforeStage(t);
    for (int v : arrivals_[t]) {
      resident_[v] = kCounted;
      current_ += graph_.bytes[v];
    }
    MeasureStage(draft.bits, t, result, sink);
  }
  result->peak = std::max(result->peak, current_ + Count(graph_.profile->tail));
}

template <class Sink>
void Evaluator::MeasureForward(const Draft& draft, Evaluation* result,
                               Sink& sink) {
  for (int i = 0; i < graph_.ops; ++i) {
    sink.Act(Do::kForward, i);
    for (int v : graph_.outputs[i]) {
      if (!graph_.saved[v]) continue;
      resident_[v] = kCounted;
      current_ += graph_.bytes[v];
    }
    result->forward_peak[i] = current_ + graph_.other[i];
    result->peak = std::max(result->peak, result->forward_peak[i]);
    for (int v : graph_.released_forward[i]) {
      if (resident_[v] == kAway) continue;
      if (!Kept(draft.bits, *result, v)) {
        Drop(v, sink);
      } else if (!draft.offloaded.empty() && draft.offloaded[v]) {
        sink.Act(Do::kOffload, v);
        resident_[v] = kOnHost;
        current_ -= graph_.bytes[v];
        arrivals_[result->first_use[v]].push_back(v);
        result->moved.push_back({v, result->first_use[v]});
        if (!draft.bits.row(v).early().empty()) result->broken = true;
      }
    }
  }
}

template <class Sink>
void Evaluator::MeasureStage(const Retention& retention, int t,
                             Evaluation* result, Sink& sink) {
  const Stage& stage = graph_.profile->stages[t];
  result->stage_peak[t] = 0;
  if (result->rebuilt_begin[t] < result->rebuilt_begin[t + 1]) {
    Rebuild(retention, t, result, sink);
  }
  sink.Act(Do::kBackward, t);
  result->stage_peak[t] =
      std::max(result->stage_peak[t], current_ + Count(stage.during));
  result->peak = std::max(result->peak, result->stage_peak[t]);
  const auto drop = [&](int v) {
    last_read_[v] = -1;
    if (!Stays(retention, *result, v, t)) Drop(v, sink);
  };
  for (int k = result->touched_begin[t]; k < result->touched_begin[t + 1];
       ++k) {
    drop(result->touched[k]);
  }
  for (int v : graph_.released_stage[t]) drop(v);
}

template <class Sink>
void Evaluator::Rebuild(const Retention& retention, int t, Evaluation* result,
                        Sink& sink) {
  const int begin = result->rebuilt_begin[t];
  const int end = result->rebuilt_begin[t + 1];
  const int64_t before = Count(graph_.profile->stages[t].before);
  for (int k = begin; k < end; ++k) {
    for (int v : graph_.inputs[result->rebuilt[k]]) last_read_[v] = k;
  }
  for (int v : graph_.needs[t]) last_read_[v] = kByStage;
  for (int k = begin; k < end; ++k) {
    const int i = result->rebuilt[k];
    sink.Act(Do::kRecompute, i);
    for (int v : graph_.outputs[i]) {
      const bool by_script = graph_.held[v] >= t && !graph_.saved[v];
      // An op with an output on the host is not recomputed: planner/plan.h.
      if (resident_[v] == kOnHost) result->broken = true;
      if (resident_[v] != kAway || by_script) continue;
      resident_[v] = kCounted;
      current_ += graph_.bytes[v];
    }
    result->stage_peak[t] =
        std::max(result->stage_peak[t], before + current_ + graph_.scratch[i]);
    const auto drop = [&](int v) {
      if (graph_.held[v] < t && last_read_[v] <= k &&
          !Stays(retention, *result, v, t)) {
        Drop(v, sink);
      }
    };
    for (int v : graph_.inputs[i]) drop(v);
    for (int v : graph_.outputs[i]) drop(v);
  }
}

}  // namespace ebbtide
