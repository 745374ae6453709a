#include "profiler/chrome_trace.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "profiler/kind.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

// The rows under the process: spans of kind k in row k + 1, steps in row 0.
constexpr int kStepRow = 0;
constexpr int RowOf(SpanKind kind) { return 1 + static_cast<int>(kind); }

class Events {
 public:
  explicit Events(const Trace& trace) : trace_(trace) {}

  Json& Add(const char* phase, const std::string& name, int64_t time, int row) {
    list_.push_back({{"ph", phase},
                     {"name", name},
                     {"pid", trace_.process},
                     {"tid", row},
                     {"ts", Micros(time - trace_.start)}});
    return list_.back();
  }

  // Whole nanoseconds below 2^53 / 1000 survive the division and the printing
  // of the shortest number that reads back the same.
  static double Micros(int64_t nanos) { return nanos / 1000.0; }

  Json Take() { return std::move(list_); }

 private:
  const Trace& trace_;
  Json list_ = Json::array();
};

void NameRow(Events& events, const Trace& trace, int row, const char* name) {
  events.Add("M", "thread_name", trace.start, row)["args"] = {{"name", name}};
}

void AddSpans(Events& events, const Trace& trace) {
  for (const Span& span : trace.spans) {
    Json& event =
        events.Add("X", trace.names[span.name], span.begin, RowOf(span.kind));
    event["cat"] = SpanKindName(span.kind);
    event["dur"] = Events::Micros(span.end - span.begin);
    if (span.bytes != Bytes{0}) event["args"] = {{"bytes", Count(span.bytes)}};
  }
  for (const StepRecord& step : trace.steps) {
    if (step.end == 0) continue;
    Json& event = events.Add("X", "step " + std::to_string(step.index),
                             step.begin, kStepRow);
    event["dur"] = Events::Micros(step.end - step.begin);
    event["args"] = {{"peak", Count(step.peak)}};
  }
}

void AddCounters(Events& events, const Trace& trace) {
  for (const CurveSample& sample : trace.curve) {
    Json live = Json::object();
    for (int kind = 0; kind < kKinds; ++kind) {
      live[KindName(static_cast<Kind>(kind))] = Count(sample.live[kind]);
    }
    events.Add("C", "live bytes", sample.time, 0)["args"] = std::move(live);
  }
  for (const BudgetChange& change : trace.budgets) {
    events.Add("C", "budget", change.time,
               0)["args"] = {{"budget", Count(change.budget)}};
  }
}

}  // namespace

std::string ToChromeTrace(const Trace& trace) {
  Events events(trace);
  NameRow(events, trace, kStepRow, "steps");
  for (int kind = 0; kind < kSpanKinds; ++kind) {
    const auto span_kind = static_cast<SpanKind>(kind);
    NameRow(events, trace, RowOf(span_kind), SpanKindName(span_kind));
  }
  AddSpans(events, trace);
  AddCounters(events, trace);
  for (const Eviction& eviction : trace.evictions) {
    const bool dropped = eviction.how == Eviction::How::kDrop;
    Json& event =
        events.Add("i", trace.names[eviction.name], eviction.time,
                   RowOf(dropped ? SpanKind::kRecompute : SpanKind::kOffload));
    event["cat"] = dropped ? "drop" : "spill";
    event["s"] = "t";
    event["args"] = {{"bytes", Count(eviction.bytes)}};
  }
  const Json json = {{"traceEvents", events.Take()}, {"displayTimeUnit", "ms"}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ebbtide
