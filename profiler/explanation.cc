#include "profiler/explanation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/simulate.h"
#include "planner/size.h"
#include "planner/validate.h"

namespace ebbtide {
namespace {

constexpr Bytes kNoBudget{int64_t{1} << 60};
// Evaluations of a search: for a large step they take about a second.
constexpr int64_t kEvaluations = 4000;
constexpr int kMostRows = 10;

// The plan that the trace holds, if it is one of the profile.
std::optional<Plan> RecordedPlan(const Profile& profile,
                                 Explanation* explanation) {
  if (!explanation->run || explanation->run->plan.empty()) return std::nullopt;
  auto plan = PlanFromJson(explanation->run->plan, "the trace");
  if (plan.ok()) {
    const auto valid = Validate(profile, plan->actions, kNoBudget);
    if (valid.ok()) {
      plan->time = valid->time;
      plan->peak = valid->peak;
      // Made for an earlier step, whose values had a few bytes less.
      plan->budget = std::max(plan->budget, plan->peak);
      return *std::move(plan);
    }
  }
  explanation->unknown.push_back(
      "the plan in the trace is not one of the step in the trace");
  return std::nullopt;
}

absl::Status ChoosePlan(const Profile& profile, const ExplainOptions& options,
                        Explanation* explanation) {
  PlanOptions plan = {.budget = UnmanagedPeak(profile),
                      .solver = options.solver,
                      .time_limit = options.time_limit,
                      .evaluations = kEvaluations};
  if (options.budget) {
    explanation->plan_source = "made for --budget";
    plan.budget = *options.budget;
  } else if (auto recorded = RecordedPlan(profile, explanation)) {
    explanation->plan_source = "trace";
    explanation->plan = *std::move(recorded);
    return absl::OkStatus();
  } else if (explanation->run && Count(explanation->run->budget) > 0 &&
             explanation->run->budget < plan.budget) {
    explanation->plan_source = "made for its budget";
    plan.budget = explanation->run->budget;
    explanation->unknown.push_back(
        "which plans the run followed: the one told of was made now, for the "
        "run's budget");
  } else {
    explanation->plan_source = "keeps all";
    plan.solver = "keep";
  }
  auto made = MakePlan(profile, plan);
  if (!made.ok()) return made.status();
  explanation->plan = *std::move(made);
  return absl::OkStatus();
}

void KeepLargest(size_t most, std::vector<Holder>* holders) {
  std::stable_sort(
      holders->begin(), holders->end(),
      [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (holders->size() > most) holders->resize(most);
}

PeakOfStep RecordedPeak(const RunFacts& run) {
  const Bytes live =
      std::accumulate(run.live->begin(), run.live->end(), Bytes{});
  PeakOfStep peak = {.source = "trace",
                     .bytes = live,
                     .other = live - run.alive_bytes,
                     .count = run.alive_count};
  for (const AliveBlock& block : run.alive) {
    peak.largest.push_back({.name = block.name,
                            .layer = block.layer,
                            .bytes = block.bytes,
                            .kind = KindName(block.kind),
                            .done = block.done});
  }
  return peak;
}

absl::StatusOr<PeakOfStep> PlannedPeak(const Profile& profile, const Plan& plan,
                                       const Simulation& simulation, int most) {
  PeakOfStep peak = {.source = "profile",
                     .bytes = simulation.peak,
                     .instant = InstantName(profile, simulation.peak_instant),
                     .other = simulation.peak};
  const auto holders = PeakHolders(profile, plan.actions, kNoBudget);
  if (!holders.ok()) return holders.status();
  const std::vector<Fate> fates = FatesOf(profile, plan);
  for (const int v : *holders) {
    const Bytes bytes = profile.values[v].bytes;
    peak.other -= bytes;
    peak.largest.push_back({.name = ValueName(profile, v),
                            .bytes = bytes,
                            .kind = KindName(Kind::kSaved),
                            .done = FateName(fates[v])});
  }
  peak.count = static_cast<int64_t>(peak.largest.size());
  KeepLargest(most, &peak.largest);
  return peak;
}

absl::Status ExplainDoubts(const Profile& profile, int most,
                           Explanation* explanation) {
  if (!KnowsSpread(profile)) {
    explanation->unknown.push_back(
        "how the times of the ops scatter: the profile has no spread");
    return absl::OkStatus();
  }
  auto doubts = RankDoubts(profile, explanation->plan, most);
  if (!doubts.ok()) return doubts.status();
  for (const Doubt& doubt : *doubts) {
    explanation->doubt_names.push_back(InstantName(profile, doubt.instant));
  }
  explanation->doubts = *std::move(doubts);
  for (const int instant : Outliers(profile)) {
    explanation->outliers.push_back(
        {instant, InstantName(profile, instant), SpreadAt(profile, instant)});
  }
  return absl::OkStatus();
}

// Describes the effects of the plan on the step.
absl::Status ExplainStep(const Profile& profile, const ExplainOptions& options,
                         Explanation* explanation) {
  const Plan& plan = explanation->plan;
  const auto simulation = Simulate(profile, plan.actions, kNoBudget);
  if (!simulation.ok()) return simulation.status();
  explanation->stall = simulation->stall;
  explanation->starved = simulation->starved;
  if (!explanation->peak) {
    auto peak = PlannedPeak(profile, plan, *simulation, options.most);
    if (!peak.ok()) return peak.status();
    explanation->peak = *std::move(peak);
  }
  auto decisions = ExplainPlan(profile, plan, options.most);
  if (!decisions.ok()) return decisions.status();
  for (const Decision& decision : *decisions) {
    explanation->names.push_back(ValueName(profile, decision.value));
  }
  explanation->decisions = *std::move(decisions);
  return ExplainDoubts(profile, options.most, explanation);
}

std::vector<NamedBytes> MakersOf(const Profile& profile,
                                 const LeastPeak& least) {
  std::vector<NamedBytes> makers;
  for (const int v : least.values) {
    makers.push_back({ValueName(profile, v), profile.values[v].bytes});
  }
  std::stable_sort(makers.begin(), makers.end(),
                   [](const NamedBytes& a, const NamedBytes& b) {
                     return a.bytes > b.bytes;
                   });
  return makers;
}

// The least power of two by which the budgets of a curve are few.
Bytes UnitFor(Bytes floor, Bytes peak) {
  int64_t unit = 1;
  while (Count(peak) - Count(floor) > kMostRows * unit) unit *= 2;
  return Bytes{unit};
}

// From the floor that is proven to the peak of what keeps all.
void ChooseBudgets(const Profile& profile, Explanation* explanation) {
  const Bytes floor = std::min(explanation->proven_spilling.bytes,
                               FindLeastPeak(profile, false).bytes);
  const Bytes peak = UnmanagedPeak(profile);
  const int64_t unit = Count(UnitFor(floor, peak));
  explanation->unit = Bytes{unit};
  const int64_t first = std::max((Count(floor) + unit - 1) / unit, int64_t{1});
  const int64_t last = std::max(first, (Count(peak) + unit - 1) / unit);
  for (int64_t k = first; k <= last; ++k) {
    explanation->budgets.push_back({.budget = Bytes{k * unit}});
  }
}

void FillBudgets(Explanation* explanation) {
  for (BudgetRow& row : explanation->budgets) {
    row.keeping = TimeWithin(*explanation->keeping, row.budget);
    if (!explanation->spilling) continue;
    row.spilling = TimeWithin(*explanation->spilling, row.budget);
    // A plan that may offload need not.
    if (row.keeping) {
      row.spilling =
          std::min(*row.keeping, row.spilling.value_or(*row.keeping));
    }
  }
}

absl::Status ExplainBudgets(const Profile& profile,
                            const ExplainOptions& options,
                            Explanation* explanation) {
  explanation->proven_spilling = FindLeastPeak(profile, /*offload=*/true);
  explanation->spilling_makers =
      MakersOf(profile, explanation->proven_spilling);
  ChooseBudgets(profile, explanation);
  OutlookOptions outlook = {.floor_time = options.time_limit / 4,
                            .curve_time = options.time_limit,
                            .evaluations = kEvaluations};
  for (const BudgetRow& row : explanation->budgets) {
    outlook.budgets.push_back(row.budget);
  }
  auto keeping = MakeOutlook(profile, outlook);
  if (!keeping.ok()) return keeping.status();
  explanation->keeping = *std::move(keeping);
  explanation->keeping_makers = MakersOf(profile, explanation->keeping->proven);
  if (profile.d2h > 0 && profile.h2d > 0) {
    outlook.offload = true;
    auto spilling = MakeOutlook(profile, outlook);
    if (!spilling.ok()) return spilling.status();
    explanation->spilling = *std::move(spilling);
  } else {
    explanation->unknown.push_back(
        "what offloading would buy: the profile has no speed of copies");
  }
  FillBudgets(explanation);
  return absl::OkStatus();
}

void TellWhatIsMissing(Explanation* explanation) {
  std::vector<std::string>& unknown = explanation->unknown;
  if (!explanation->run) {
    unknown.push_back("what was measured: this is a profile, not a run");
    return;
  }
  const RunFacts& run = *explanation->run;
  if (run.alive_count == 0) {
    unknown.push_back(
        "who else was alive at the measured peak: only saved values of the "
        "profiled step are known by name");
  }
  if (!run.report) {
    unknown.push_back(
        "coverage, predictions and what stood in the way: the run has not "
        "ended by itself, or its report is damaged");
  } else if (run.report->coverage.empty()) {
    unknown.push_back("coverage: nothing was recorded under a budget");
  }
  if (run.dropped_records > 0) {
    unknown.push_back(absl::StrCat(
        run.dropped_records,
        " records that found no room in the trace: counts are too low"));
  }
  if (!run.damage.empty()) {
    unknown.push_back(absl::StrCat("what came after: ", run.damage));
  }
}

Explanation ExplainWithoutProfile(RunFacts run) {
  Explanation explanation;
  explanation.run = std::move(run);
  if (explanation.run->alive_count > 0) {
    explanation.peak = RecordedPeak(*explanation.run);
  }
  explanation.unknown.push_back(
      "the floor, other budgets and decisions: no step was like the one before "
      "it, so the trace holds no profile");
  TellWhatIsMissing(&explanation);
  return explanation;
}

}  // namespace

absl::StatusOr<Explanation> Explain(const Profile& profile,
                                    std::optional<RunFacts> run,
                                    const ExplainOptions& options) {
  Explanation explanation = {.run = std::move(run), .origin = profile.origin};
  explanation.tail_time = profile.tail_time;
  if (auto s = CheckProfile(profile); !s.ok()) return s;
  if (auto s = ChoosePlan(profile, options, &explanation); !s.ok()) return s;
  if (explanation.run && explanation.run->alive_count > 0) {
    explanation.peak = RecordedPeak(*explanation.run);
  }
  if (explanation.plan.feasible) {
    if (auto s = ExplainStep(profile, options, &explanation); !s.ok()) return s;
  }
  if (auto s = ExplainBudgets(profile, options, &explanation); !s.ok()) {
    return s;
  }
  TellWhatIsMissing(&explanation);
  return explanation;
}

absl::StatusOr<Explanation> ExplainRun(const TraceSource& source,
                                       const std::string& origin,
                                       const ExplainOptions& options) {
  auto facts = FactsOf(source);
  if (!facts.ok()) return facts.status();
  if (facts->profile.empty() && !options.budget) {
    return ExplainWithoutProfile(*std::move(facts));
  }
  if (facts->profile.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin,
        ": --budget: expected a run with a repeated step, there is no profile "
        "in it"));
  }
  const auto profile = ProfileFromJson(facts->profile, origin);
  if (!profile.ok()) return profile.status();
  return Explain(*profile, *std::move(facts), options);
}

}  // namespace ebbtide
