// ebbtide check INPUT.json PLAN.json [--json]
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/input.h"
#include "planner/chain_plan.h"
#include "planner/chain_validate.h"
#include "planner/plan.h"
#include "planner/validate.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::string input;
  std::string plan;
  bool json = false;
};

struct Answer {
  bool valid = false;
  std::string reason;  // why a plan is invalid
};

Answer AnswerOf(const absl::Status& status) {
  return {status.ok(), std::string(status.message())};
}

absl::StatusOr<Answer> Check(const Input& input, const Arguments& arguments) {
  const absl::StatusOr<std::string> text = ReadFile(arguments.plan);
  if (!text.ok()) return text.status();
  if (const Chain* chain = std::get_if<Chain>(&input)) {
    const auto plan = ChainPlanFromJson(*text, arguments.plan);
    if (!plan.ok()) return plan.status();
    return AnswerOf(ValidateChainPlan(*chain, *plan));
  }
  const auto plan = PlanFromJson(*text, arguments.plan);
  if (!plan.ok()) return plan.status();
  return AnswerOf(ValidatePlan(std::get<Profile>(input), *plan));
}

Exit Run(const Arguments& arguments) {
  const absl::StatusOr<Input> input = ReadInput(arguments.input);
  if (!input.ok()) return ExitFor(input.status());
  const absl::StatusOr<Answer> answer = Check(*input, arguments);
  if (!answer.ok()) return ExitFor(answer.status());
  if (arguments.json) {
    nlohmann::json json = {{"valid", answer->valid}, {"reason", nullptr}};
    if (!answer->valid) json["reason"] = answer->reason;
    std::printf("%s\n", json.dump().c_str());
  } else if (answer->valid) {
    std::printf("valid\n");
  }
  if (answer->valid) return Exit::kDone;
  PrintError(absl::StrCat(arguments.plan, ": ", answer->reason));
  return Exit::kNo;
}

}  // namespace

void AddCheckCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "check", "Whether a plan is valid, by the independent validator");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("input", arguments->input, "A chain or a profile")
      ->required()
      ->type_name("INPUT.json");
  command->add_option("plan", arguments->plan, "Its plan")
      ->required()
      ->type_name("PLAN.json");
  command->add_flag("--json", arguments->json,
                    "Print {\"valid\":..,\"reason\":..}");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
