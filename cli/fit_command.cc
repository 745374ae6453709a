// ebbtide fit [--steps N] [--no-check] [--device cpu|SIMULATED] -- CMD...
//
// Will it fit, and what would a budget cost? CMD trains for N steps, watched
// and not managed (cli/watched_run.h); without --steps for 24, or for as many
// as 20 seconds have. The largest step is planned for, which takes 20 seconds
// at most. All times are predictions, of whole steps;
// the ops that a plan repeats are taken to repeat their bytes, which a run
// under a budget verifies. Offloading is planned at the speed that its folder
// has while nothing else runs.
//
// The recommended budget is the least one found whose step takes at most 5 %
// longer than the unmanaged one without offloading, and the margin that the
// runtime leaves (1 %, at least 1 MiB), in whole MiB. Copies take cores and
// memory bandwidth from the compute beside them, which no profile shows: a
// recommendation does not count on them. CMD then trains for as many steps
// within that budget. Where one of them is above it, the budget becomes what
// they took, up to kMostChecks times.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/spill_speed.h"
#include "cli/watched_run.h"
#include "planner/outlook.h"
#include "planner/plan.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr double kWorthIt = 1.05;
constexpr absl::Duration kWatchTime = absl::Seconds(20);
constexpr absl::Duration kCheckTime = absl::Seconds(15);
constexpr int kMostChecks = 3;
constexpr absl::Duration kFloorTime = absl::Seconds(2);
constexpr absl::Duration kCurveTime = absl::Seconds(8);

struct Arguments {
  std::optional<int64_t> steps;
  bool no_check = false;
  std::string device = "cpu";
  std::vector<std::string> command;
};

absl::StatusOr<Outlook> OutlookOf(const Profile& profile, bool spill) {
  return MakeOutlook(
      profile,
      {.offload = spill, .floor_time = kFloorTime, .curve_time = kCurveTime});
}

std::string Cell(std::optional<Time> time, Time unmanaged) {
  if (!time) return absl::StrFormat("%21s", "-");
  return absl::StrFormat("%10.1f ms %+6.1f %%", *time / 1e6,
                         100 * (*time / unmanaged - 1));
}

void PrintFloor(const std::string& how, const Outlook& outlook) {
  const LeastPeak& proven = outlook.proven;
  const bool met = proven.bytes == outlook.known.bytes;
  const std::string& maker = met ? proven.name : outlook.known.name;
  std::printf("floor %s: %s by the best plan known%s; %s\n", how.c_str(),
              FormatSize(outlook.known.bytes).c_str(),
              maker.empty() ? "" : absl::StrCat(", for ", maker).c_str(),
              met ? "no plan needs less"
                  : absl::StrCat("every plan needs ", FormatSize(proven.bytes),
                                 ", for ", proven.name)
                        .c_str());
}

void PrintCurve(Time unmanaged, const Outlook& keeping,
                const std::optional<Outlook>& spilling) {
  std::vector<Bytes> budgets;
  for (const CurvePoint& point : keeping.curve) budgets.push_back(point.budget);
  if (spilling) {
    for (const CurvePoint& p : spilling->curve) budgets.push_back(p.budget);
  }
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  std::printf("\n%12s %21s%s\n", "budget", "without offloading",
              spilling ? "      with offloading" : "");
  for (const Bytes budget : budgets) {
    const auto kept = TimeWithin(keeping, budget);
    std::string line = absl::StrCat(
        absl::StrFormat("%12s ", FormatSize(budget)), Cell(kept, unmanaged));
    if (spilling) {
      auto spilled = TimeWithin(*spilling, budget);
      // A plan that may offload need not.
      if (kept) spilled = std::min(*kept, spilled.value_or(*kept));
      absl::StrAppend(&line, " ", Cell(spilled, unmanaged));
    }
    std::printf("%s\n", line.c_str());
  }
}

// With the margin that the runtime leaves, in whole MiB.
Bytes AsBudget(Bytes planned) {
  constexpr int64_t kMiB = 1 << 20;
  const int64_t bytes = Count(planned);
  const int64_t with_margin = bytes + std::max(bytes / 99 + 1, kMiB);
  return Bytes{(with_margin + kMiB - 1) / kMiB * kMiB};
}

// The least budget known whose step costs no more than kWorthIt: that of the
// curve, and what a few plans between it and the point before find.
absl::StatusOr<CurvePoint> Recommend(const Profile& profile, Time unmanaged,
                                     const Outlook& keeping) {
  constexpr int kPlans = 4;
  const auto good = std::find_if(keeping.curve.begin(), keeping.curve.end(),
                                 [unmanaged](const CurvePoint& point) {
                                   return point.time <= kWorthIt * unmanaged;
                                 });
  if (good == keeping.curve.end()) {
    return CurvePoint{UnmanagedPeak(profile), unmanaged};
  }
  CurvePoint best = *good;
  if (good == keeping.curve.begin()) return best;
  int64_t too_little = Count(std::prev(good)->budget);
  PlanOptions options;
  options.allow_offload = false;
  options.time_limit = kFloorTime / kPlans;
  for (int i = 0; i < kPlans; ++i) {
    options.budget = Bytes{(too_little + Count(best.budget)) / 2};
    const auto plan = MakePlan(profile, options);
    if (!plan.ok()) return plan.status();
    const Time time = plan->time + profile.tail_time;
    if (plan->feasible && time <= kWorthIt * unmanaged) {
      best = {options.budget, time};
    } else {
      too_little = Count(options.budget);
    }
  }
  return best;
}

void PrintRecommendation(Bytes budget, Time unmanaged, const CurvePoint& best) {
  std::printf(
      "\nrecommended: --budget %dMiB, %.1f ms a step (%+.1f %%)\n"
      "  the least budget that recomputing alone holds at no more than %+.0f "
      "%%, and 1 %% of margin\n",
      static_cast<int>(Count(budget) >> 20), best.time / 1e6,
      100 * (best.time / unmanaged - 1), 100 * (kWorthIt - 1));
}

// Checks the recommended budget, and prints the last one that was checked.
absl::Status Check(const std::vector<std::string>& command,
                   const WatchLimits& limits, Bytes budget, Time unmanaged,
                   const CurvePoint& best) {
  std::string notes;
  for (int checks = 1;; ++checks) {
    const auto run = CheckRun(command, budget, limits);
    if (absl::IsCancelled(run.status())) return run.status();
    if (!run.ok()) {
      absl::StrAppend(&notes, "  not checked: ", run.status().message(), "\n");
      break;
    }
    const std::string seen =
        absl::StrCat(run->over, " of ", run->steps, " steps were over ",
                     FormatSize(budget), ", peak ", FormatSize(run->peak));
    absl::StrAppend(&notes, "  checked: ", seen, "\n");
    if (run->over == 0 || checks == kMostChecks) break;
    budget = AsBudget(std::max(run->peak, budget));
  }
  PrintRecommendation(budget, unmanaged, best);
  std::printf("%s", notes.c_str());
  return absl::OkStatus();
}

absl::Status Answer(WatchedRun run, const Arguments& arguments,
                    const std::string& name) {
  Profile& profile = run.profile;
  const Time unmanaged = UnmanagedTime(profile) + profile.tail_time;
  std::printf(
      "%s: %d steps watched%s; %d ops and %d backward ops, %.1f ms a "
      "step, peak %s\n",
      name.c_str(), static_cast<int>(run.steps),
      run.ended.empty() ? "" : absl::StrCat(", ", run.ended).c_str(),
      static_cast<int>(profile.ops.size()),
      static_cast<int>(profile.stages.size()), unmanaged / 1e6,
      FormatSize(UnmanagedPeak(profile)).c_str());
  const auto keeping = OutlookOf(profile, /*spill=*/false);
  if (!keeping.ok()) return keeping.status();
  PrintFloor("without offloading", *keeping);
  std::optional<Outlook> spilling;
  const auto speed = MeasureSpillSpeed();
  if (speed.ok()) {
    profile.d2h = speed->out;
    profile.h2d = speed->back;
    auto outlook = OutlookOf(profile, /*spill=*/true);
    if (!outlook.ok()) return outlook.status();
    spilling = *std::move(outlook);
    const std::string how =
        absl::StrFormat("with offloading to %s (%.0f MB/s out, %.0f MB/s back)",
                        speed->folder, 1e3 * speed->out, 1e3 * speed->back);
    PrintFloor(how, *spilling);
  } else {
    std::printf("no offloading: %s\n",
                std::string(speed.status().message()).c_str());
  }
  PrintCurve(unmanaged, *keeping, spilling);
  const auto best = Recommend(profile, unmanaged, *keeping);
  if (!best.ok()) return best.status();
  const Bytes budget = AsBudget(best->budget);
  if (arguments.no_check) {
    PrintRecommendation(budget, unmanaged, *best);
    return absl::OkStatus();
  }
  return Check(arguments.command, {.steps = run.steps, .time = kCheckTime},
               budget, unmanaged, *best);
}

Exit Run(const Arguments& arguments) {
  if (arguments.device != "cpu") {
    PrintError(absl::StrCat("--device ", arguments.device,
                            ": expected cpu; simulated devices are not there "
                            "yet"));
    return Exit::kUsage;
  }
  WatchLimits limits = {.time = kWatchTime};
  if (arguments.steps) {
    limits = {.steps = *arguments.steps, .time = absl::InfiniteDuration()};
  }
  auto run = WatchRun(arguments.command, limits);
  if (!run.ok()) return ExitFor(run.status());
  const std::string name = absl::StrJoin(arguments.command, " ");
  const absl::Status answered = Answer(*std::move(run), arguments, name);
  if (answered.ok()) return Exit::kDone;
  return ExitFor(absl::Status(answered.code(),
                              absl::StrCat(name, ": ", answered.message())));
}

}  // namespace

void AddFitCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "fit", "Will a program fit, and what would a budget cost it");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("--steps", arguments->steps,
                   "Steps to watch before CMD is stopped; default 24")
      ->check(CLI::Range(int64_t{3}, int64_t{1000000}));
  command->add_flag("--no-check", arguments->no_check,
                    "Do not run CMD within the recommended budget");
  command->add_option("--device", arguments->device, "cpu")
      ->type_name("cpu|SIMULATED");
  AddProgram(*command, &arguments->command);
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
