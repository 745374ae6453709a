#include "profiler/timeline_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

// Numbers one after the other; see timeline_json.h.
class Packed {
 public:
  void Put(int64_t value) {
    uint64_t rest = (static_cast<uint64_t>(value) << 1) ^
                    static_cast<uint64_t>(value >> 63);
    for (; rest >= 128; rest >>= 7) {
      bytes_.push_back(static_cast<char>(rest | 128));
    }
    bytes_.push_back(static_cast<char>(rest));
  }
  // As a difference from what was put for `last`.
  void Step(int64_t value, int64_t& last) {
    Put(value - last);
    last = value;
  }
  // {"rows":..,"data":..}
  Json ToJson(size_t rows) const {
    return {{"rows", rows}, {"data", absl::Base64Escape(bytes_)}};
  }

 private:
  std::string bytes_;
};

// The names that the page shows, numbered anew.
class Names {
 public:
  explicit Names(const std::vector<std::string>& all)
      : all_(all), numbers_(all.size(), -1) {}

  int operator()(int name) {
    if (name < 0) return -1;
    if (numbers_[name] < 0) {
      numbers_[name] = static_cast<int>(used_.size());
      used_.push_back(all_[name]);
    }
    return numbers_[name];
  }
  Json Take() { return std::move(used_); }

 private:
  const std::vector<std::string>& all_;
  std::vector<int> numbers_;
  Json used_ = Json::array();
};

// Rows: time and event, both as steps, and the step of each cause.
Json CurveToJson(const Timeline& timeline) {
  Packed packed;
  int64_t time = timeline.begin;
  int64_t event = 0;
  BytesByCause live{};
  for (const TimelinePoint& point : timeline.curve) {
    packed.Step(point.time, time);
    packed.Step(point.event, event);
    for (int cause = 0; cause < kCauses; ++cause) {
      packed.Put(Count(point.live[cause]) - Count(live[cause]));
    }
    live = point.live;
  }
  Json causes = Json::array();
  for (int cause = 0; cause < kCauses; ++cause) {
    causes.push_back(CauseName(cause));
  }
  Json json = packed.ToJson(timeline.curve.size());
  json["causes"] = std::move(causes);
  return json;
}

// Rows: number, event and time of its begin, as steps; events and nanoseconds
// that it lives; bytes; how many causes, and of each the events since the one
// before and the cause; name, shape and layer; how many unpacked it, and their
// names; how many numbers before it the block is whose content it has, 0: none;
// how it was evicted, 0: not, 1: dropped, 2: offloaded, 2 more if by a plan,
// and then after how many events, and after how many it came back, 0: did not.
Json BlocksToJson(const Timeline& timeline, Names& names) {
  Packed packed;
  int64_t number = 0;
  int64_t event = 0;
  int64_t time = timeline.begin;
  for (const TimelineBlock& block : timeline.blocks) {
    packed.Step(block.number, number);
    packed.Step(block.begin, event);
    packed.Step(block.begin_time, time);
    packed.Put(block.end - block.begin);
    packed.Put(block.end_time - block.begin_time);
    packed.Put(Count(block.bytes));
    packed.Put(static_cast<int64_t>(block.causes.size()));
    int64_t from = block.begin;
    for (const auto& [at, cause] : block.causes) {
      packed.Step(at, from);
      packed.Put(cause);
    }
    packed.Put(names(block.name));
    packed.Put(names(block.shape));
    packed.Put(names(block.layer));
    packed.Put(static_cast<int64_t>(block.unpacked_by.size()));
    for (const int by : block.unpacked_by) packed.Put(names(by));
    packed.Put(block.value == kNoBlock ? 0 : block.number - block.value);
    if (block.evicted < 0) {
      packed.Put(0);
      continue;
    }
    packed.Put((block.how == Eviction::How::kDrop ? 1 : 2) +
               (block.planned ? 2 : 0));
    packed.Put(block.evicted - block.begin);
    packed.Put(block.returned < 0 ? 0 : block.returned - block.begin);
  }
  return packed.ToJson(timeline.blocks.size());
}

// Rows: begin as a step, nanoseconds, name, count, bytes, value.
Json LanesToJson(const Timeline& timeline, Names& names) {
  Json lanes = Json::object();
  for (int kind = 0; kind < kSpanKinds; ++kind) {
    Packed packed;
    int64_t begin = timeline.begin;
    for (const LaneSpan& each : timeline.lanes[kind]) {
      packed.Step(each.begin, begin);
      packed.Put(each.end - each.begin);
      packed.Put(names(each.name));
      packed.Put(each.count);
      packed.Put(Count(each.bytes));
      packed.Put(each.value);
    }
    lanes[SpanKindName(static_cast<SpanKind>(kind))] =
        packed.ToJson(timeline.lanes[kind].size());
  }
  return lanes;
}

// Rows: time as a step, bytes on the host, bytes on disk.
Json TiersToJson(const Timeline& timeline) {
  Packed packed;
  int64_t time = timeline.begin;
  for (const TierSample& each : timeline.tiers) {
    packed.Step(each.time, time);
    packed.Put(Count(each.host));
    packed.Put(Count(each.disk));
  }
  return packed.ToJson(timeline.tiers.size());
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

Json PointsToJson(const std::vector<PlanComparison::Point>& points) {
  Json list = Json::array();
  for (const auto& point : points) {
    list.push_back({point.at, Count(point.live)});
  }
  return list;
}

Json ComparisonToJson(const PlanComparison& comparison) {
  return {{"unmanaged", PointsToJson(comparison.unmanaged)},
          {"planned", PointsToJson(comparison.planned)},
          {"unmanaged_peak", Count(comparison.unmanaged_peak)}};
}

// Events from before the beginning count from the beginning on.
int64_t Since(const Timeline& timeline, int64_t time) {
  return std::max<int64_t>(0, time - timeline.begin);
}

Json ListsToJson(const Timeline& timeline) {
  Json steps = Json::array();
  for (const StepRecord& each : timeline.steps) {
    steps.push_back({each.index, each.begin - timeline.begin,
                     each.end == 0 ? -1 : each.end - timeline.begin,
                     Count(each.peak)});
  }
  Json gaps = Json::array();
  for (const TraceGap& each : timeline.gaps) {
    gaps.push_back({each.first, each.last, Since(timeline, each.begin),
                    Since(timeline, each.end)});
  }
  Json budgets = Json::array();
  for (const BudgetChange& each : timeline.budgets) {
    budgets.push_back({Since(timeline, each.time), Count(each.budget)});
  }
  Json plans = Json::array();
  for (const int64_t time : timeline.plans) {
    plans.push_back(Since(timeline, time));
  }
  Json notes = Json::array();
  for (const TraceText& each : timeline.notes) {
    notes.push_back({Since(timeline, each.time), each.text});
  }
  Json rows = Json::array();
  for (const OpRow& each : timeline.rows) rows.push_back(RowToJson(each));
  return {{"steps", std::move(steps)},     {"gaps", std::move(gaps)},
          {"budgets", std::move(budgets)}, {"plans", std::move(plans)},
          {"notes", std::move(notes)},     {"rows", std::move(rows)}};
}

// "</script>" in a name would end the element the text is put into.
std::string SafeInScript(const Json& json) {
  const std::string text =
      json.dump(-1, ' ', false, Json::error_handler_t::replace);
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

Json ToJson(const Timeline& timeline, const PlanComparison& comparison,
            const std::string& explanation) {
  const Json run = Json::parse(timeline.run, nullptr, /*throw=*/false);
  Names names(timeline.names);
  Json json = {
      {"run", run.is_discarded() ? Json() : run},
      {"nanos", timeline.end - timeline.begin},
      {"events", timeline.events},
      {"peak", Count(timeline.peak)},
      {"peak_time", timeline.peak_time - timeline.begin},
      {"peak_event", timeline.peak_event},
      {"detail", {timeline.detail_begin, timeline.detail_end}},
      {"curve", CurveToJson(timeline)},
      {"blocks", BlocksToJson(timeline, names)},
      {"tiers", TiersToJson(timeline)},
      {"lanes", LanesToJson(timeline, names)},
      {"names", names.Take()},
      {"whole_steps", timeline.whole_steps},
      {"steps_nanos", timeline.steps_nanos},
      {"total", RowToJson(timeline.total)},
      {"plan", ComparisonToJson(comparison)},
      {"explanation", Json::parse(explanation)},
      {"recorded_until", timeline.recorded_until == 0
                             ? -1
                             : Since(timeline, timeline.recorded_until)},
      {"complete", timeline.complete},
      {"dropped_records", timeline.dropped_records},
      {"damage", timeline.damage}};
  json.update(ListsToJson(timeline));
  return json;
}

}  // namespace

std::string TimelineToJson(const Timeline& timeline,
                           const PlanComparison& comparison,
                           const std::string& explanation) {
  return SafeInScript(ToJson(timeline, comparison, explanation));
}

std::string TimelinesToJson(const std::vector<NamedTimeline>& runs) {
  Json list = Json::array();
  for (const auto& [file, timeline] : runs) {
    list.push_back(ToJson(timeline, {}, "null"));
    list.back()["file"] = file;
  }
  return SafeInScript({{"runs", std::move(list)}});
}

}  // namespace ebbtide
