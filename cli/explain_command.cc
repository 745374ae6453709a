// ebbtide explain INPUT.json [--budget B] [--solver NAME] [--time-limit S]
//                 [--json]
//
// How sure the times of a profile are, and where that matters: the ten ops
// whose uncertainty moves the plan most (planner/doubt.h), and those that were
// slow once. The plan is the one for the budget, or where none is given the one
// that keeps all.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/input.h"
#include "planner/doubt.h"
#include "planner/plan.h"
#include "planner/simulate.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

constexpr int kMost = 10;

struct Arguments {
  std::string input;
  std::string budget;
  std::string solver = "auto";
  double time_limit = 5;
  bool json = false;
};

struct Explanation {
  Plan plan;
  std::vector<Doubt> doubts;
  std::vector<int> outliers;
};

absl::StatusOr<PlanOptions> OptionsOf(const Arguments& arguments,
                                      const Profile& profile) {
  PlanOptions options;
  options.time_limit = absl::Seconds(arguments.time_limit);
  options.solver = arguments.solver;
  if (arguments.budget.empty()) {
    options.solver = "keep";
    options.budget = UnmanagedPeak(profile);
    return options;
  }
  const absl::StatusOr<Bytes> budget = ParsePlanBudget(arguments.budget);
  if (!budget.ok()) return budget.status();
  options.budget = *budget;
  return options;
}

absl::StatusOr<Profile> ReadProfile(const std::string& path) {
  absl::StatusOr<Input> input = ReadInput(path);
  if (!input.ok()) return input.status();
  auto* const profile = std::get_if<Profile>(&*input);
  if (profile == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": kind: expected \"profile\", a chain has no spread"));
  }
  if (!KnowsSpread(*profile)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the spread of some op, there is none"));
  }
  return *std::move(profile);
}

absl::StatusOr<Explanation> Explain(const Profile& profile,
                                    const Arguments& arguments) {
  const auto options = OptionsOf(arguments, profile);
  if (!options.ok()) return options.status();
  auto plan = MakePlan(profile, *options);
  if (!plan.ok()) return plan.status();
  Explanation explanation = {.plan = *std::move(plan)};
  if (!explanation.plan.feasible) return explanation;
  auto doubts = RankDoubts(profile, explanation.plan, kMost);
  if (!doubts.ok()) return doubts.status();
  explanation.doubts = *std::move(doubts);
  explanation.outliers = Outliers(profile);
  return explanation;
}

nlohmann::ordered_json ToJson(const Profile& profile,
                              const Explanation& explanation) {
  auto doubts = nlohmann::ordered_json::array();
  for (const Doubt& doubt : explanation.doubts) {
    doubts.push_back({{"instant", doubt.instant},
                      {"name", InstantName(profile, doubt.instant)},
                      {"time", doubt.time},
                      {"median", doubt.spread.median},
                      {"quartiles", doubt.spread.quartiles},
                      {"steps", doubt.spread.steps},
                      {"runs", doubt.runs},
                      {"moves", doubt.moves}});
  }
  auto outliers = nlohmann::ordered_json::array();
  for (const int instant : explanation.outliers) {
    const TimeSpread& spread = SpreadAt(profile, instant);
    outliers.push_back({{"instant", instant},
                        {"name", InstantName(profile, instant)},
                        {"median", spread.median},
                        {"most", spread.most}});
  }
  return {{"solver", explanation.plan.solver},
          {"time", explanation.plan.time},
          {"peak", Count(explanation.plan.peak)},
          {"doubts", std::move(doubts)},
          {"outliers", std::move(outliers)}};
}

void PrintOrigin(const Origin& origin) {
  if (origin == Origin()) return;
  std::printf("measured %s on %s, %.0f MHz, by %s; %s\n", origin.date.c_str(),
              origin.device.c_str(), origin.megahertz, origin.clock.c_str(),
              origin.versions.c_str());
}

void Print(const Profile& profile, const Explanation& explanation) {
  const Plan& plan = explanation.plan;
  PrintOrigin(profile.origin);
  std::printf("%s: time %.3f ms, peak %s\n", plan.solver.c_str(),
              plan.time / 1e6, FormatSize(plan.peak).c_str());
  std::printf("%12s %12s %12s %12s %5s\n", "moves ms", "time ms", "median ms",
              "quartiles ms", "runs");
  for (const Doubt& doubt : explanation.doubts) {
    std::printf("%+12.3f %12.3f %12.3f %12.3f %5d  %s\n", doubt.moves / 1e6,
                doubt.time / 1e6, doubt.spread.median / 1e6,
                doubt.spread.quartiles / 1e6, doubt.runs,
                InstantName(profile, doubt.instant).c_str());
  }
  for (const int instant : explanation.outliers) {
    const TimeSpread& spread = SpreadAt(profile, instant);
    std::printf("slow once: %s took %.3f ms, its median is %.3f ms\n",
                InstantName(profile, instant).c_str(), spread.most / 1e6,
                spread.median / 1e6);
  }
}

Exit Run(const Arguments& arguments) {
  const absl::StatusOr<Profile> profile = ReadProfile(arguments.input);
  if (!profile.ok()) return ExitFor(profile.status());
  const auto explanation = Explain(*profile, arguments);
  if (!explanation.ok()) return ExitFor(explanation.status());
  const Plan& plan = explanation->plan;
  if (!plan.feasible) {
    return NoPlan(plan.solver, FormatSize(plan.budget),
                  FormatSize(plan.least_budget));
  }
  if (arguments.json) {
    std::printf("%s\n", ToJson(*profile, *explanation).dump().c_str());
  } else {
    Print(*profile, *explanation);
  }
  return Exit::kDone;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "explain", "Which ops' uncertain times move a plan most");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("input", arguments->input, "A profile or a recorded run")
      ->required()
      ->type_name("INPUT");
  command->add_option("--budget", arguments->budget,
                      "Of the plan, as 8GiB; without it all is kept");
  command->add_option("--solver", arguments->solver, "As of plan");
  command->add_option("--time-limit", arguments->time_limit, "Seconds")
      ->check(CLI::Range(0.0, 1e6));
  command->add_flag("--json", arguments->json,
                    "Print {\"doubts\":[..],\"outliers\":[..],..}");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
