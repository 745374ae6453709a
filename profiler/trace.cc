#include "profiler/trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "profiler/block_books.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

class Collector final : public TraceVisitor {
 public:
  explicit Collector(Trace& trace) : trace_(trace) {}

  void OnStart(const TraceStart& start) override {
    trace_.process = start.process;
    trace_.unix_nanos = start.unix_nanos;
    trace_.start = start.time;
  }
  void OnName(std::string name) override {
    trace_.names.push_back(std::move(name));
  }
  void OnSample(const CurveSample& sample) override {
    trace_.curve.push_back(sample);
  }
  void OnBlock(const BlockEvent& event) override {
    trace_.blocks.push_back(event);
    books_.Apply(event);
    // The first of two threads may write second.
    const int64_t last = trace_.curve.empty() ? 0 : trace_.curve.back().time;
    trace_.curve.push_back({std::max(last, event.time), books_.live()});
  }
  void OnNote(const BlockNote& note) override { trace_.notes.push_back(note); }
  void OnTier(const TierSample& sample) override {
    trace_.tiers.push_back(sample);
  }
  void OnSpan(const Span& span) override { trace_.spans.push_back(span); }
  void OnStepBegin(int64_t index, int64_t time) override {
    trace_.steps.push_back({.index = index, .begin = time});
  }
  // The record of its beginning may have been left out.
  void OnStepEnd(const StepRecord& end) override {
    StepRecord step = end;
    step.begin = step.end;
    if (!trace_.steps.empty() && trace_.steps.back().index == step.index) {
      step.begin = trace_.steps.back().begin;
      trace_.steps.pop_back();
    }
    trace_.steps.push_back(step);
  }
  void OnGap(const TraceGap& gap) override { AddGap(gap, &trace_.gaps); }
  void OnBudget(const BudgetChange& change) override {
    trace_.budgets.push_back(change);
  }
  void OnEviction(const Eviction& eviction) override {
    trace_.evictions.push_back(eviction);
  }
  void OnPeak(PeakRecord peak) override {
    trace_.peaks.push_back(std::move(peak));
  }
  void OnText(TraceText text) override {
    trace_.texts.push_back(std::move(text));
  }
  void OnDetailEnd(int64_t time) override { trace_.detail_end = time; }

 private:
  Trace& trace_;
  BlockBooks books_;
};

absl::StatusOr<Trace> Collected(absl::StatusOr<TraceEnd> end, Trace trace) {
  if (!end.ok()) return end.status();
  trace.complete = end->complete;
  trace.dropped = end->dropped;
  trace.damage = std::move(end->damage);
  return trace;
}

}  // namespace

const char* SpanKindName(SpanKind kind) {
  constexpr const char* kNames[kSpanKinds] = {
      "forward", "backward", "recompute", "offload", "restore", "stall"};
  return kNames[static_cast<int>(kind)];
}

void AddGap(const TraceGap& gap, std::vector<TraceGap>* gaps) {
  if (!gaps->empty() && gaps->back().last + 1 == gap.first) {
    gaps->back().last = gap.last;
    gaps->back().end = gap.end;
  } else {
    gaps->push_back(gap);
  }
}

absl::StatusOr<Trace> ParseTrace(const std::string& bytes,
                                 const std::string& origin) {
  Trace trace;
  Collector collector(trace);
  auto end = VisitTraceBytes(bytes, origin, collector);
  return Collected(std::move(end), std::move(trace));
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  Trace trace;
  Collector collector(trace);
  auto end = VisitTrace(path, collector);
  return Collected(std::move(end), std::move(trace));
}

}  // namespace ebbtide
