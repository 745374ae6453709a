#include "profiler/timeline.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

Bytes Total(const BytesByKind& live) {
  Bytes sum{};
  for (const Bytes each : live) sum += each;
  return sum;
}

void FindExtent(const Trace& trace, Timeline& timeline) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = std::numeric_limits<int64_t>::min();
  const auto cover = [&](int64_t time) {
    begin = std::min(begin, time);
    end = std::max(end, time);
  };
  for (const CurveSample& each : trace.curve) cover(each.time);
  for (const Span& each : trace.spans) cover(each.begin), cover(each.end);
  for (const StepRecord& each : trace.steps) {
    cover(each.begin);
    if (each.end != 0) cover(each.end);
  }
  for (const Eviction& each : trace.evictions) cover(each.time);
  if (begin > end) begin = end = trace.start;
  timeline.begin = begin;
  timeline.end = end;
}

// First, highest and last sample of each interval.
std::vector<CurveSample> ThinOut(const std::vector<CurveSample>& curve,
                                 int64_t begin, int64_t width) {
  std::vector<CurveSample> kept;
  for (size_t i = 0; i < curve.size();) {
    const int64_t interval = (curve[i].time - begin) / width;
    size_t highest = i;
    size_t last = i;
    for (size_t j = i; j < curve.size(); ++j) {
      if ((curve[j].time - begin) / width != interval) break;
      if (Total(curve[j].live) > Total(curve[highest].live)) highest = j;
      last = j;
    }
    kept.push_back(curve[i]);
    if (highest != i) kept.push_back(curve[highest]);
    if (last != highest && last != i) kept.push_back(curve[last]);
    i = last + 1;
  }
  return kept;
}

std::vector<LaneSpan> MakeLane(const Trace& trace, SpanKind kind, int64_t gap) {
  std::vector<const Span*> spans;
  for (const Span& span : trace.spans) {
    if (span.kind == kind) spans.push_back(&span);
  }
  std::sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) {
    return std::tie(a->begin, a->end) < std::tie(b->begin, b->end);
  });
  std::vector<LaneSpan> lane;
  int64_t longest = 0;
  for (const Span* span : spans) {
    const int64_t length = span->end - span->begin;
    // A long span stays by itself, so that it can be pointed at.
    const bool joins = !lane.empty() && span->begin - lane.back().end < gap &&
                       (length < gap || span->begin < lane.back().end);
    if (!joins) {
      lane.push_back({span->begin, span->end, "", 0, Bytes{0}});
      longest = -1;
    }
    LaneSpan& last = lane.back();
    last.end = std::max(last.end, span->end);
    last.bytes += span->bytes;
    ++last.count;
    if (length > longest) {
      longest = length;
      last.name = trace.names[span->name];
    }
  }
  return lane;
}

void CountSpan(const Span& span, OpRow& row) {
  const int kind = static_cast<int>(span.kind);
  ++row.count[kind];
  row.nanos[kind] += span.end - span.begin;
  row.bytes[kind] += span.bytes;
}

void CountEviction(const Eviction& eviction, OpRow& row) {
  const bool dropped = eviction.how == Eviction::How::kDrop;
  ++(dropped ? row.drops : row.spills);
  (dropped ? row.dropped : row.spilled) += eviction.bytes;
}

int64_t NanosOfOurs(const OpRow& row) {
  int64_t nanos = 0;
  for (const SpanKind kind : {SpanKind::kRecompute, SpanKind::kOffload,
                              SpanKind::kRestore, SpanKind::kStall}) {
    nanos += row.nanos[static_cast<int>(kind)];
  }
  return nanos;
}

void MakeRows(const Trace& trace, Timeline& timeline) {
  absl::flat_hash_map<int, OpRow> rows;
  for (const Span& span : trace.spans) {
    CountSpan(span, rows[span.name]);
    CountSpan(span, timeline.total);
  }
  for (const Eviction& eviction : trace.evictions) {
    CountEviction(eviction, rows[eviction.name]);
    CountEviction(eviction, timeline.total);
  }
  for (auto& [name, row] : rows) {
    row.name = trace.names[name];
    const bool touched = row.drops + row.spills > 0 || NanosOfOurs(row) > 0;
    if (touched) timeline.rows.push_back(std::move(row));
  }
  const auto key = [](const OpRow& row) {
    return std::tuple(-Count(row.dropped + row.spilled), -NanosOfOurs(row),
                      row.name);
  };
  std::sort(timeline.rows.begin(), timeline.rows.end(),
            [&](const OpRow& a, const OpRow& b) { return key(a) < key(b); });
}

Json RowToJson(const OpRow& row) {
  Json json = {{"name", row.name},
               {"drops", row.drops},
               {"dropped", Count(row.dropped)},
               {"spills", row.spills},
               {"spilled", Count(row.spilled)}};
  for (int kind = 0; kind < kSpanKinds; ++kind) {
    json[SpanKindName(static_cast<SpanKind>(kind))] = {
        {"count", row.count[kind]},
        {"nanos", row.nanos[kind]},
        {"bytes", Count(row.bytes[kind])}};
  }
  return json;
}

Json CurveToJson(const Timeline& timeline) {
  Json times = Json::array();
  for (const CurveSample& each : timeline.curve) {
    times.push_back(each.time - timeline.begin);
  }
  Json kinds = Json::object();
  for (int kind = 0; kind < kKinds; ++kind) {
    Json& values = kinds[KindName(static_cast<Kind>(kind))] = Json::array();
    for (const CurveSample& each : timeline.curve) {
      values.push_back(Count(each.live[kind]));
    }
  }
  return {{"time", std::move(times)}, {"live", std::move(kinds)}};
}

Json LanesToJson(const Timeline& timeline) {
  Json lanes = Json::object();
  for (int kind = 0; kind < kSpanKinds; ++kind) {
    Json& lane = lanes[SpanKindName(static_cast<SpanKind>(kind))] =
        Json::array();
    for (const LaneSpan& each : timeline.lanes[kind]) {
      lane.push_back({each.begin - timeline.begin, each.end - timeline.begin,
                      each.name, each.count, Count(each.bytes)});
    }
  }
  return lanes;
}

}  // namespace

Timeline MakeTimeline(const Trace& trace, int resolution) {
  Timeline timeline;
  FindExtent(trace, timeline);
  const int64_t width =
      std::max<int64_t>(1, (timeline.end - timeline.begin) / resolution);
  timeline.curve = ThinOut(trace.curve, timeline.begin, width);
  for (const CurveSample& each : timeline.curve) {
    if (Total(each.live) > timeline.peak) {
      timeline.peak = Total(each.live);
      timeline.peak_time = each.time;
    }
  }
  for (const StepRecord& step : trace.steps) {
    timeline.peak = std::max(timeline.peak, step.peak);
  }
  for (int kind = 0; kind < kSpanKinds; ++kind) {
    timeline.lanes[kind] = MakeLane(trace, static_cast<SpanKind>(kind), width);
  }
  timeline.steps = trace.steps;
  timeline.budgets = trace.budgets;
  for (const TraceText& text : trace.texts) {
    if (text.kind == TextKind::kNote) timeline.notes.push_back(text);
    if (text.kind == TextKind::kRun) timeline.run = text.text;
  }
  MakeRows(trace, timeline);
  timeline.complete = trace.complete;
  timeline.dropped_records = trace.dropped;
  timeline.damage = trace.damage;
  return timeline;
}

std::string TimelineToJson(const Timeline& timeline) {
  Json steps = Json::array();
  for (const StepRecord& each : timeline.steps) {
    steps.push_back({each.index, each.begin - timeline.begin,
                     each.end == 0 ? -1 : each.end - timeline.begin,
                     Count(each.peak)});
  }
  Json budgets = Json::array();
  for (const BudgetChange& each : timeline.budgets) {
    budgets.push_back(
        {std::max<int64_t>(0, each.time - timeline.begin), Count(each.budget)});
  }
  Json notes = Json::array();
  for (const TraceText& each : timeline.notes) {
    notes.push_back({each.time - timeline.begin, each.text});
  }
  Json rows = Json::array();
  for (const OpRow& each : timeline.rows) rows.push_back(RowToJson(each));
  const Json run = Json::parse(timeline.run, nullptr, /*throw=*/false);
  const Json json = {{"run", run.is_discarded() ? Json() : run},
                     {"nanos", timeline.end - timeline.begin},
                     {"peak", Count(timeline.peak)},
                     {"peak_time", timeline.peak_time - timeline.begin},
                     {"curve", CurveToJson(timeline)},
                     {"lanes", LanesToJson(timeline)},
                     {"steps", std::move(steps)},
                     {"budgets", std::move(budgets)},
                     {"notes", std::move(notes)},
                     {"total", RowToJson(timeline.total)},
                     {"rows", std::move(rows)},
                     {"complete", timeline.complete},
                     {"dropped_records", timeline.dropped_records},
                     {"damage", timeline.damage}};
  const std::string text =
      json.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script>" in a name would end the element the text is put into.
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace ebbtide
