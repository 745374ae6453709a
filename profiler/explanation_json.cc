#include <nlohmann/json.hpp>

#include "profiler/explanation.h"

namespace ebbtide {
namespace {

using Json = nlohmann::ordered_json;

template <typename Number>
Json OrNull(const std::optional<Number>& number) {
  return number ? Json(*number) : Json();
}

Json Parsed(const std::string& text) {
  if (text.empty()) return nullptr;
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json KindsToJson(const std::optional<BytesByKind>& live) {
  if (!live) return nullptr;
  Json json = Json::object();
  for (int kind = 0; kind < kKinds; ++kind) {
    json[KindName(static_cast<Kind>(kind))] = Count((*live)[kind]);
  }
  return json;
}

Json EvictionsToJson(const RunFacts& run) {
  Json list = Json::array();
  for (const EvictedName& each : run.evictions) {
    list.push_back({{"name", each.name},
                    {"drops", each.drops},
                    {"dropped", Count(each.dropped)},
                    {"spills", each.spills},
                    {"spilled", Count(each.spilled)}});
  }
  return list;
}

// First and last of each row of steps of which only times and peaks are known.
Json GapsToJson(const RunFacts& run) {
  Json list = Json::array();
  for (const TraceGap& gap : run.gaps) list.push_back({gap.first, gap.last});
  return list;
}

Json RunToJson(const std::optional<RunFacts>& run) {
  if (!run) return nullptr;
  return {{"complete", run->complete},
          {"damage", run->damage},
          {"dropped_records", run->dropped_records},
          {"steps", run->steps},
          {"not_recorded", GapsToJson(*run)},
          {"budget", Count(run->budget)},
          {"peak", Count(run->peak)},
          {"peak_step", run->peak_step},
          {"live_by_kind", KindsToJson(run->live)},
          {"step_time", run->step_time},
          {"state", run->report ? Json(run->report->state) : Json()},
          {"reason", run->report ? Json(run->report->reason) : Json()},
          {"evictions", EvictionsToJson(*run)}};
}

Json PlanToJson(const Explanation& e) {
  if (e.plan_source.empty()) return nullptr;
  return {{"source", e.plan_source},
          {"solver", e.plan.solver},
          {"feasible", e.plan.feasible},
          {"budget", Count(e.plan.budget)},
          {"least_budget", Count(e.plan.least_budget)},
          {"time", e.plan.time},
          {"tail_time", e.tail_time},
          {"stall", e.stall},
          {"starved", e.starved},
          {"peak", Count(e.plan.peak)}};
}

Json PeakToJson(const std::optional<PeakOfStep>& peak) {
  if (!peak) return nullptr;
  Json largest = Json::array();
  for (const Holder& holder : peak->largest) {
    largest.push_back({{"name", holder.name},
                       {"layer", holder.layer},
                       {"bytes", Count(holder.bytes)},
                       {"kind", holder.kind},
                       {"done", holder.done}});
  }
  return {{"source", peak->source},   {"bytes", Count(peak->bytes)},
          {"instant", peak->instant}, {"other", Count(peak->other)},
          {"count", peak->count},     {"largest", std::move(largest)}};
}

Json FloorToJson(const std::optional<Outlook>& outlook, const LeastPeak& proven,
                 const std::vector<NamedBytes>& makers) {
  Json values = Json::array();
  for (const NamedBytes& maker : makers) {
    values.push_back({{"name", maker.name}, {"bytes", Count(maker.bytes)}});
  }
  return {{"known", outlook ? Json(Count(outlook->known.bytes)) : Json()},
          {"known_for", outlook ? Json(outlook->known.name) : Json()},
          {"proven", Count(proven.bytes)},
          {"proven_for", proven.name},
          {"other", Count(proven.other)},
          {"values", std::move(values)}};
}

Json FloorsToJson(const Explanation& e) {
  if (!e.keeping) return nullptr;
  return {{"without_spilling",
           FloorToJson(e.keeping, e.keeping->proven, e.keeping_makers)},
          {"with_spilling",
           FloorToJson(e.spilling, e.proven_spilling, e.spilling_makers)}};
}

Json BudgetsToJson(const Explanation& e) {
  if (!e.keeping) return nullptr;
  Json rows = Json::array();
  for (const BudgetRow& row : e.budgets) {
    rows.push_back({{"budget", Count(row.budget)},
                    {"without_spilling", OrNull(row.keeping)},
                    {"with_spilling", OrNull(row.spilling)}});
  }
  return {{"unit", Count(e.unit)}, {"rows", std::move(rows)}};
}

Json DecisionsToJson(const Explanation& e) {
  Json list = Json::array();
  for (size_t i = 0; i < e.decisions.size(); ++i) {
    const Decision& d = e.decisions[i];
    list.push_back({{"name", e.names[i]},
                    {"bytes", Count(d.bytes)},
                    {"fate", FateName(d.fate)},
                    {"reason", d.reason},
                    {"recipe", d.recipe},
                    {"recipe_ops", d.recipe_ops},
                    {"out", d.out},
                    {"back", d.back},
                    {"waits", d.waits}});
  }
  return list;
}

Json PredictionToJson(const RunFacts::Report& report) {
  Json list = Json::array();
  for (const Followed& plan : report.followed) {
    list.push_back({{"steps", plan.steps},
                    {"predicted_time", plan.predicted_time},
                    {"measured_time", plan.measured_time},
                    {"predicted_peak", Count(plan.predicted_peak)},
                    {"measured_peak", Count(plan.measured_peak)}});
  }
  return list;
}

Json ObstaclesToJson(const RunFacts::Report& report) {
  Json list = Json::array();
  for (const auto& [why, bytes] : report.obstacles) {
    list.push_back({{"why", why}, {"bytes", Count(bytes)}});
  }
  return list;
}

Json DoubtsToJson(const Explanation& e) {
  Json list = Json::array();
  for (size_t i = 0; i < e.doubts.size(); ++i) {
    const Doubt& doubt = e.doubts[i];
    list.push_back({{"instant", doubt.instant},
                    {"name", e.doubt_names[i]},
                    {"time", doubt.time},
                    {"median", doubt.spread.median},
                    {"quartiles", doubt.spread.quartiles},
                    {"steps", doubt.spread.steps},
                    {"runs", doubt.runs},
                    {"moves", doubt.moves}});
  }
  return list;
}

Json OutliersToJson(const Explanation& e) {
  Json list = Json::array();
  for (const Explanation::Outlier& outlier : e.outliers) {
    list.push_back({{"instant", outlier.instant},
                    {"name", outlier.name},
                    {"median", outlier.spread.median},
                    {"most", outlier.spread.most}});
  }
  return list;
}

}  // namespace

std::string ExplanationToJson(const Explanation& e) {
  const bool has_report = e.run && e.run->report;
  const Json json = {
      {"kind", "explanation"},
      {"version", 1},
      {"run", RunToJson(e.run)},
      {"plan", PlanToJson(e)},
      {"peak", PeakToJson(e.peak)},
      {"floor", FloorsToJson(e)},
      {"budgets", BudgetsToJson(e)},
      {"decisions", DecisionsToJson(e)},
      {"prediction", has_report ? PredictionToJson(*e.run->report) : Json()},
      {"coverage", has_report ? Parsed(e.run->report->coverage) : Json()},
      {"obstacles", has_report ? ObstaclesToJson(*e.run->report) : Json()},
      {"out_of_memory",
       has_report ? Parsed(e.run->report->out_of_memory) : Json()},
      {"doubts", DoubtsToJson(e)},
      {"outliers", OutliersToJson(e)},
      {"unknown", e.unknown}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ebbtide
