#include "cli/explain_print.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr size_t kMost = 10;

template <typename... Args>
void Line(std::string* text, const absl::FormatSpec<Args...>& format,
          const Args&... args) {
  absl::StrAppendFormat(text, format, args...);
  text->push_back('\n');
}

void AddOrigin(const Origin& origin, std::string* text) {
  if (origin == Origin()) return;
  Line(text, "measured %s on %s, %.0f MHz, by %s; %s", origin.date,
       origin.device, origin.megahertz, origin.clock, origin.versions);
}

std::string KindsOf(const BytesByKind& live) {
  std::vector<std::string> kinds;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (live[kind] == Bytes{}) continue;
    kinds.push_back(absl::StrCat(KindName(static_cast<Kind>(kind)), " ",
                                 FormatSize(live[kind])));
  }
  return absl::StrJoin(kinds, ", ");
}

void AddEvictions(const RunFacts& run, std::string* text) {
  for (size_t i = 0; i < run.evictions.size() && i < kMost; ++i) {
    const EvictedName& each = run.evictions[i];
    Line(text, "%12s dropped %5d times, %12s copied away %5d times  %s",
         FormatSize(each.dropped), each.drops, FormatSize(each.spilled),
         each.spills, each.name);
  }
}

// "3, 5 to 7 and 12 more rows".
void AddGaps(const std::vector<TraceGap>& gaps, std::string* text) {
  if (gaps.empty()) return;
  int64_t steps = 0;
  std::vector<std::string> rows;
  for (const TraceGap& gap : gaps) {
    steps += gap.last - gap.first + 1;
    if (rows.size() == kMost) continue;
    rows.push_back(gap.first == gap.last
                       ? absl::StrCat(gap.first)
                       : absl::StrCat(gap.first, " to ", gap.last));
  }
  std::string all = absl::StrJoin(rows, ", ");
  if (gaps.size() > kMost) {
    absl::StrAppend(&all, " and others up to ", gaps.back().last);
  }
  Line(text,
       "  of %d steps only times and peaks were recorded, to keep the file "
       "small: %s",
       steps, all);
}

void AddRun(const RunFacts& run, std::string* text) {
  std::string end = run.complete ? "" : ", cut off";
  if (run.report) absl::StrAppend(&end, ", ended in state ", run.report->state);
  Line(text, "run: %d steps%s, peak %s%s%s%s", run.steps,
       run.step_time > 0
           ? absl::StrFormat(" of %.1f ms (median)", run.step_time / 1e6)
           : std::string(),
       FormatSize(run.peak),
       Count(run.budget) > 0 ? absl::StrCat(" of ", FormatSize(run.budget))
                             : std::string(", no budget"),
       run.peak_step >= 0 ? absl::StrCat(" in step ", run.peak_step)
                          : std::string(),
       end);
  AddGaps(run.gaps, text);
  if (run.live) Line(text, "  at the highest sample: %s", KindsOf(*run.live));
  if (run.report && !run.report->reason.empty()) {
    Line(text, "  %s", run.report->reason);
  }
  AddEvictions(run, text);
}

void AddPeak(const PeakOfStep& peak, std::string* text) {
  Line(
      text, "\npeak of %s: %s%s; %d are known by name, %s are not",
      peak.source == "trace" ? "the run" : "the profiled step",
      FormatSize(peak.bytes),
      peak.instant.empty() ? std::string() : absl::StrCat(" at ", peak.instant),
      peak.count, FormatSize(peak.other));
  for (const Holder& holder : peak.largest) {
    const bool both = !holder.name.empty() && !holder.layer.empty();
    Line(text, "%12s  %-10s  %-17s  %s%s%s", FormatSize(holder.bytes),
         holder.kind, holder.done, holder.name, both ? ", " : "", holder.layer);
  }
}

void AddPlan(const Explanation& e, std::string* text) {
  const Plan& plan = e.plan;
  if (!plan.feasible) {
    Line(text, "\nplan (%s): none within %s; the least known needs %s",
         e.plan_source, FormatSize(plan.budget), FormatSize(plan.least_budget));
    return;
  }
  Line(text,
       "\nplan (%s): %s: time %.3f ms, of which the compute waits %.3f "
       "ms for copies and %.3f ms for the host, peak %s; %.3f ms outside of it",
       e.plan_source, plan.solver, plan.time / 1e6, e.stall / 1e6,
       e.starved / 1e6, FormatSize(plan.peak), e.tail_time / 1e6);
  for (size_t i = 0; i < e.decisions.size(); ++i) {
    const Decision& d = e.decisions[i];
    Line(text, "%12s  %-11s  %s: %s", FormatSize(d.bytes), FateName(d.fate),
         e.names[i], d.reason);
  }
}

void AddFloor(const char* how, const std::optional<Outlook>& known,
              const LeastPeak& proven, const std::vector<NamedBytes>& makers,
              std::string* text) {
  std::string line = absl::StrCat("floor ", how, ": ");
  if (known) {
    absl::StrAppend(
        &line, FormatSize(known->known.bytes), " by the best plan known",
        known->known.name.empty() ? ""
                                  : absl::StrCat(", for ", known->known.name),
        "; ");
  }
  absl::StrAppend(&line, "every plan needs ", FormatSize(proven.bytes),
                  ", for ", proven.name, ": ", FormatSize(proven.other),
                  " are not saved values");
  for (size_t i = 0; i < makers.size() && i < 3; ++i) {
    absl::StrAppend(&line, ", ", FormatSize(makers[i].bytes), " ",
                    makers[i].name);
  }
  if (makers.size() > 3) {
    absl::StrAppend(&line, " and ", makers.size() - 3, " more");
  }
  Line(text, "%s", line);
}

// A time, and what a unit more of budget has brought.
std::string Cell(std::optional<Time> time, std::optional<Time> before) {
  if (!time) return absl::StrFormat("%26s", "-");
  return absl::StrFormat(
      "%12.1f ms %11s", *time / 1e6,
      before ? absl::StrFormat("%+.1f ms", (*time - *before) / 1e6)
             : std::string());
}

void AddBudgets(const Explanation& e, std::string* text) {
  Line(text, "\nwhat each %s of budget buys: a step would take",
       FormatSize(e.unit));
  Line(text, "%12s %26s %26s", "budget", "without offloading",
       "with offloading");
  BudgetRow before;
  for (const BudgetRow& row : e.budgets) {
    std::string line =
        absl::StrCat(absl::StrFormat("%12s ", FormatSize(row.budget)),
                     Cell(row.keeping, before.keeping), " ",
                     Cell(row.spilling, before.spilling));
    absl::StripTrailingAsciiWhitespace(&line);
    Line(text, "%s", line);
    before = row;
  }
}

double PercentMore(double value, double than) {
  return than > 0 ? 100 * (value / than - 1) : 0;
}

// Adds the first failed request, if any; the file has the rest.
void AddOutOfMemory(const std::string& text_of_report, std::string* text) {
  const auto json = nlohmann::json::parse(text_of_report, nullptr, false);
  if (!json.is_object()) return;
  Line(text, "\nout of memory: %s did not fit in %s, in step %d; %s were alive",
       FormatSize(Bytes{json.value("request", int64_t{0})}),
       json.value("where", ""), json.value("step", int64_t{0}),
       FormatSize(Bytes{json.value("live", int64_t{0})}));
  for (const auto& help : json.value("helps", std::vector<std::string>())) {
    Line(text, "  would have helped: %s", help);
  }
}

void AddReport(const RunFacts::Report& report, std::string* text) {
  for (const Followed& plan : report.followed) {
    Line(text,
         "\nprediction: %.1f ms and %s a step; measured in %d steps: %.1f ms "
         "(%+.1f %%) and %s (%+.1f %%)",
         plan.predicted_time / 1e6, FormatSize(plan.predicted_peak), plan.steps,
         plan.measured_time / 1e6,
         PercentMore(plan.measured_time, plan.predicted_time),
         FormatSize(plan.measured_peak),
         PercentMore(static_cast<double>(Count(plan.measured_peak)),
                     static_cast<double>(Count(plan.predicted_peak))));
  }
  const auto coverage = nlohmann::json::parse(report.coverage, nullptr, false);
  if (coverage.is_object()) {
    const auto size = [&](const char* member) {
      return FormatSize(Bytes{coverage.value(member, int64_t{0})});
    };
    Line(text,
         "\ncoverage: of %s that autograd saved in a step %s can be "
         "recomputed, %s only copied away, %s have to stay; beside them %s of "
         "parameters and %s from outside of the step",
         size("bytes"), size("recomputable"), size("offload_only"),
         size("kept"), size("parameters"), size("outside"));
  }
  AddOutOfMemory(report.out_of_memory, text);
  for (size_t i = 0; i < report.obstacles.size() && i < kMost; ++i) {
    Line(text, "%sin the way: %s, %s", i == 0 ? "\n" : "",
         report.obstacles[i].why, FormatSize(report.obstacles[i].bytes));
  }
}

void AddDoubts(const Explanation& e, std::string* text) {
  if (!e.doubts.empty()) {
    Line(text, "\n%12s %12s %12s %12s %5s", "moves ms", "time ms", "median ms",
         "quartiles ms", "runs");
  }
  for (size_t i = 0; i < e.doubts.size(); ++i) {
    const Doubt& doubt = e.doubts[i];
    Line(text, "%+12.3f %12.3f %12.3f %12.3f %5d  %s", doubt.moves / 1e6,
         doubt.time / 1e6, doubt.spread.median / 1e6,
         doubt.spread.quartiles / 1e6, doubt.runs, e.doubt_names[i]);
  }
  for (size_t i = 0; i < e.outliers.size() && i < kMost; ++i) {
    const Explanation::Outlier& outlier = e.outliers[i];
    Line(text, "slow once: %s took %.3f ms, its median is %.3f ms",
         outlier.name, outlier.spread.most / 1e6, outlier.spread.median / 1e6);
  }
  if (e.outliers.size() > kMost) {
    Line(text, "slow once: %d more", e.outliers.size() - kMost);
  }
}

}  // namespace

std::string ExplanationToText(const Explanation& e) {
  std::string text;
  AddOrigin(e.origin, &text);
  if (e.run) AddRun(*e.run, &text);
  if (e.peak) AddPeak(*e.peak, &text);
  if (!e.plan_source.empty()) AddPlan(e, &text);
  if (e.keeping) {
    text.push_back('\n');
    AddFloor("without offloading", e.keeping, e.keeping->proven,
             e.keeping_makers, &text);
    AddFloor("with offloading", e.spilling, e.proven_spilling,
             e.spilling_makers, &text);
    AddBudgets(e, &text);
  }
  if (e.run && e.run->report) AddReport(*e.run->report, &text);
  AddDoubts(e, &text);
  if (!e.unknown.empty()) text.push_back('\n');
  for (const std::string& each : e.unknown) {
    Line(&text, "not known: %s", each);
  }
  return text;
}

}  // namespace ebbtide
