#include "profiler/run_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

Bytes Total(const BytesByKind& live) {
  Bytes sum{};
  for (const Bytes each : live) sum += each;
  return sum;
}

template <typename Number>
Number Median(std::vector<Number> numbers) {
  if (numbers.empty()) return {};
  const auto middle = numbers.begin() + (numbers.size() - 1) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

void FindPeak(const Trace& trace, RunFacts* facts) {
  for (const CurveSample& sample : trace.curve) {
    if (facts->live && Total(sample.live) <= Total(*facts->live)) continue;
    facts->live = sample.live;
  }
  if (facts->live) facts->peak = Total(*facts->live);
  std::vector<Time> times;
  for (const StepRecord& step : trace.steps) {
    if (step.end == 0) continue;
    ++facts->steps;
    times.push_back(static_cast<Time>(step.end - step.begin));
    // What a budget bounds may be more than live bytes, so steps tell.
    if (step.peak < facts->peak || step.peak == Bytes{}) continue;
    if (step.peak == facts->peak && facts->peak_step >= 0) continue;
    facts->peak = step.peak;
    facts->peak_step = step.index;
  }
  facts->step_time = Median(std::move(times));
}

void FindHolders(const Trace& trace, RunFacts* facts) {
  Bytes most{-1};
  for (const PeakRecord& peak : trace.peaks) {
    Bytes sum{};
    for (const PeakHolder& holder : peak.holders) sum += holder.bytes;
    if (sum <= most) continue;
    most = sum;
    facts->holders = peak;
  }
  if (!facts->holders) return;
  for (const PeakHolder& holder : facts->holders->holders) {
    facts->holder_names.push_back(trace.names[holder.name]);
  }
}

void SumEvictions(const Trace& trace, RunFacts* facts) {
  absl::flat_hash_map<int, EvictedName> names;
  for (const Eviction& eviction : trace.evictions) {
    EvictedName& evicted = names[eviction.name];
    if (eviction.how == Eviction::How::kDrop) {
      ++evicted.drops;
      evicted.dropped += eviction.bytes;
    } else {
      ++evicted.spills;
      evicted.spilled += eviction.bytes;
    }
  }
  for (auto& [name, evicted] : names) {
    evicted.name = trace.names[name];
    facts->evictions.push_back(std::move(evicted));
  }
  std::sort(facts->evictions.begin(), facts->evictions.end(),
            [](const EvictedName& a, const EvictedName& b) {
              const Bytes of_a = a.dropped + a.spilled;
              const Bytes of_b = b.dropped + b.spilled;
              return of_a != of_b ? of_a > of_b : a.name < b.name;
            });
}

// Steps by their number in the run; the report knows the last ones.
std::vector<Followed> FollowedOf(const Json& report) {
  std::vector<Followed> plans;
  const int64_t first = report.at("first_step");
  const std::vector<double> times = report.at("step_times");
  const std::vector<int64_t> peaks = report.at("step_peaks");
  for (const Json& plan : report.at("plans")) {
    Followed followed;
    std::vector<Time> measured;
    for (const int64_t step : plan.at("steps")) {
      const int64_t at = step - first;
      if (at < 0 || at >= static_cast<int64_t>(times.size()) ||
          at >= static_cast<int64_t>(peaks.size())) {
        continue;
      }
      measured.push_back(1e9 * times[at]);
      followed.measured_peak =
          std::max(followed.measured_peak, Bytes{peaks[at]});
    }
    followed.steps = static_cast<int64_t>(measured.size());
    followed.measured_time = Median(std::move(measured));
    followed.predicted_time = 1e9 * plan.at("predicted_time").get<double>();
    followed.predicted_peak = Bytes{plan.at("predicted_peak").get<int64_t>()};
    if (followed.steps > 0) plans.push_back(followed);
  }
  return plans;
}

std::string TextOf(const Json& report, const char* member) {
  const auto found = report.find(member);
  return found == report.end() ? "" : found->dump();
}

std::optional<RunFacts::Report> ReportOf(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    RunFacts::Report report;
    report.state = json.at("state");
    report.reason = json.at("reason");
    report.followed = FollowedOf(json);
    for (const auto& [why, bytes] : json.at("not_replayable").items()) {
      report.obstacles.push_back({why, Bytes{bytes.get<int64_t>()}});
    }
    std::stable_sort(
        report.obstacles.begin(), report.obstacles.end(),
        [](const Obstacle& a, const Obstacle& b) { return a.bytes > b.bytes; });
    report.coverage = TextOf(json, "saved");
    report.out_of_memory = TextOf(json, "out_of_memory");
    return report;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

RunFacts FactsOf(const Trace& trace) {
  RunFacts facts;
  facts.complete = trace.complete;
  facts.damage = trace.damage;
  facts.dropped_records = trace.dropped;
  if (!trace.budgets.empty()) facts.budget = trace.budgets.back().budget;
  FindPeak(trace, &facts);
  FindHolders(trace, &facts);
  SumEvictions(trace, &facts);
  for (const TraceText& text : trace.texts) {
    if (text.kind == TextKind::kProfile) facts.profile = text.text;
    if (text.kind == TextKind::kPlan) facts.plan = text.text;
    if (text.kind == TextKind::kReport) facts.report = ReportOf(text.text);
  }
  return facts;
}

}  // namespace ebbtide
