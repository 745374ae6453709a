// Explains a run's memory: the live bytes at the peak, their treatment and its
// reason, the floor, the effects of other budgets, and predicted against
// measured values. One place for these numbers: `ebbtide explain` prints them,
// and other users take them from here.
//
// Values from the trace were measured; values from its profile are of one step
// of the kind that was profiled last; plans that the trace does not hold are
// made here and marked so. Facts missing from the trace are listed in
// `unknown`.
#ifndef EBBTIDE_PROFILER_EXPLANATION_H_
#define EBBTIDE_PROFILER_EXPLANATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/decision.h"
#include "planner/doubt.h"
#include "planner/outlook.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"
#include "profiler/run_facts.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

struct ExplainOptions {
  // Budget of the plan; nullopt: the run's own, or without one that which keeps
  // all.
  std::optional<Bytes> budget;
  std::string solver = "auto";
  // Time limit of each of the plan and the two outlooks. Searches end by a
  // number of evaluations before that, unless the step is very large: then
  // equal files give equal explanations.
  absl::Duration time_limit = absl::Seconds(5);
  int most = 10;  // rows of each list
};

// One that was alive at the peak.
struct Holder {
  std::string name;
  std::string layer;  // the module, or the parameter; "" if unknown
  Bytes bytes{};
  std::string kind;  // as KindName (profiler/kind.h)
  std::string done;  // treatment of it; "" if unknown
};

struct PeakOfStep {
  // "trace": recorded as it happened, live bytes. "profile": of the profiled
  // step under the plan, by the simulator.
  std::string source;
  Bytes bytes{};
  std::string instant;  // as InstantName; "" if unknown
  Bytes other{};        // part of it that is not among all the holders
  int64_t count = 0;    // number of all holders
  std::vector<Holder> largest;
};

struct NamedBytes {
  std::string name;
  Bytes bytes{};
};

// A budget in round units, and the whole step within it, in nanoseconds; no
// time: no plan is known.
struct BudgetRow {
  Bytes budget{};
  std::optional<Time> keeping;   // without offloading
  std::optional<Time> spilling;  // with it, where the profile has lanes
};

struct Explanation {
  std::optional<RunFacts> run;  // nullopt: a profile alone
  Origin origin;

  // "trace", "made for its budget", "made for --budget", "keeps all"; empty:
  // there is no profile, and nothing that needs one.
  std::string plan_source;
  Plan plan;
  Time stall = 0;      // part of its time that the compute waits for copies
  Time starved = 0;    // and for the host
  Time tail_time = 0;  // tail of the step, beside the plan's time
  std::optional<PeakOfStep> peak;
  std::vector<Decision> decisions;
  std::vector<std::string> names;  // names of the decisions' values
  std::vector<Doubt> doubts;
  std::vector<std::string> doubt_names;
  struct Outlier {
    int instant = 0;
    std::string name;
    TimeSpread spread;
  };
  std::vector<Outlier> outliers;

  std::optional<Outlook> keeping;
  std::optional<Outlook> spilling;  // nullopt: the profile has no lanes
  LeastPeak proven_spilling;        // as if it had
  // The saved values that are in the proven floors, the largest first.
  std::vector<NamedBytes> keeping_makers;
  std::vector<NamedBytes> spilling_makers;
  Bytes unit{};  // unit of the rows' budgets
  std::vector<BudgetRow> budgets;

  std::vector<std::string> unknown;  // a sentence each
};

// `run`: what the trace says, if there is one. Errors: an invalid profile, an
// unknown solver. A plan that is infeasible is no error: all that needs one is
// left out then.
absl::StatusOr<Explanation> Explain(const Profile& profile,
                                    std::optional<RunFacts> run,
                                    const ExplainOptions& options);

// Explains a recorded run, which `origin` names in errors. A run without a
// profile is explained by its measurements, and no plan is made; with a budget
// that is an error.
absl::StatusOr<Explanation> ExplainRun(const TraceSource& source,
                                       const std::string& origin,
                                       const ExplainOptions& options = {});

// {"kind":"explanation","version":1, ..} with the members above; sizes in
// bytes, times in nanoseconds, null for unknown values:
//   run         complete, damage, dropped_records, steps, budget, peak,
//               peak_step, live_by_kind, step_time (their median), state,
//               reason, evictions [{name, drops, dropped, spills, spilled}]
//   plan        source, solver, feasible, budget, least_budget, time,
//               tail_time, stall, starved, peak
//   peak        source, bytes, instant, other, count, largest [{name, bytes,
//               kind, done}]
//   floor       without_spilling, with_spilling: {known, known_for, proven,
//               proven_for, other, values [{name, bytes}]}
//   budgets     unit, rows [{budget, without_spilling, with_spilling}]
//   decisions   [{name, bytes, fate, reason, recipe, recipe_ops, out, back,
//               waits}]
//   prediction  [{steps, predicted_time, measured_time, predicted_peak,
//               measured_peak}], one a plan
//   coverage    as "saved" of EBBTIDE_REPORT
//   obstacles   [{why, bytes}], the most bytes first
//   out_of_memory  as in EBBTIDE_REPORT
//   doubts      [{instant, name, time, median, quartiles, steps, runs, moves}]
//   outliers    [{instant, name, median, most}]
//   unknown     [sentence]
std::string ExplanationToJson(const Explanation& explanation);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_EXPLANATION_H_
