// ebbtide explain INPUT [--budget B] [--solver NAME] [--time-limit S] [--json]
//
// Explains the memory of a run: its contents at the peak, their treatment and
// its reason, and the effects of other budgets (profiler/explanation.h). INPUT
// is a recorded run or a profile. The plan that is explained is the one for
// --budget, else the run's own, else one for the run's budget, else the one
// that keeps all.
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/explain_print.h"
#include "cli/input.h"
#include "planner/size.h"
#include "profiler/explanation.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::string input;
  std::string budget;
  std::string solver = "auto";
  double time_limit = 5;
  bool json = false;
};

absl::StatusOr<ExplainOptions> OptionsOf(const Arguments& arguments) {
  ExplainOptions options = {.solver = arguments.solver,
                            .time_limit = absl::Seconds(arguments.time_limit)};
  if (arguments.budget.empty()) return options;
  const absl::StatusOr<Bytes> budget = ParsePlanBudget(arguments.budget);
  if (!budget.ok()) return budget.status();
  options.budget = *budget;
  return options;
}

absl::StatusOr<Explanation> ExplainProfile(const std::string& path,
                                           const ExplainOptions& options) {
  const absl::StatusOr<Input> input = ReadInput(path);
  if (!input.ok()) return input.status();
  const auto* const profile = std::get_if<Profile>(&*input);
  if (profile == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": kind: expected \"profile\", a chain has no ops to tell of"));
  }
  auto explanation = Explain(*profile, std::nullopt, options);
  if (explanation.ok()) return explanation;
  return absl::Status(explanation.status().code(),
                      absl::StrCat(path, ": ", explanation.status().message()));
}

absl::StatusOr<Explanation> ExplainFile(const Arguments& arguments) {
  const auto options = OptionsOf(arguments);
  if (!options.ok()) return options.status();
  const absl::StatusOr<bool> is_trace = IsTrace(arguments.input);
  if (!is_trace.ok()) return is_trace.status();
  return *is_trace
             ? ExplainRun(SourceOf(arguments.input), arguments.input, *options)
             : ExplainProfile(arguments.input, *options);
}

Exit Run(const Arguments& arguments) {
  const auto explanation = ExplainFile(arguments);
  if (!explanation.ok()) return ExitFor(explanation.status());
  const Plan& plan = explanation->plan;
  if (!arguments.budget.empty() && !plan.feasible) {
    return NoPlan(plan.solver, FormatSize(plan.budget),
                  FormatSize(plan.least_budget));
  }
  const std::string text = arguments.json
                               ? ExplanationToJson(*explanation) + "\n"
                               : ExplanationToText(*explanation);
  std::fputs(text.c_str(), stdout);
  return Exit::kDone;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "explain",
      "What filled a run's memory, why, and what other budgets would do");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("input", arguments->input, "A recorded run or a profile")
      ->required()
      ->type_name("INPUT");
  command->add_option("--budget", arguments->budget,
                      "Of the plan, as 8GiB; without it the run's");
  command->add_option("--solver", arguments->solver, "As of plan");
  command
      ->add_option("--time-limit", arguments->time_limit,
                   "Seconds, of each of three searches")
      ->check(CLI::Range(0.0, 1e6));
  command->add_flag("--json", arguments->json,
                    "Print {\"kind\":\"explanation\",..}: "
                    "profiler/explanation.h has its members");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
