// ebbtide doctor [--json]
//
// Checks this machine: a line for each thing that was looked at, `ok`,
// `limited` or `missing`, and the action to take. Exit status 0 where nothing
// is missing that CPU mode needs, 1 otherwise.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/system_view.h"

namespace ebbtide {
namespace {

void Print(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    std::printf("%-7s  %s: %s", StateName(finding.state), finding.name.c_str(),
                finding.what.c_str());
    if (!finding.advice.empty()) std::printf(" -> %s", finding.advice.c_str());
    std::printf("\n");
  }
}

void PrintJson(const std::vector<Finding>& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"state", StateName(finding.state)},
                    {"name", finding.name},
                    {"what", finding.what},
                    {"advice", finding.advice},
                    {"needed", finding.is_needed}});
  }
  const nlohmann::ordered_json json = {{"fit", IsFit(findings)},
                                       {"findings", std::move(list)}};
  std::printf("%s\n",
              json.dump(-1, ' ', false,
                        nlohmann::ordered_json::error_handler_t::replace)
                  .c_str());
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "doctor", "What works on this machine, what does not, and what to do");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json,
                    "Print {\"fit\":..,\"findings\":[{\"state\":..}, ..]}");
  command->callback([json, exit] {
    const std::vector<Finding> findings = Diagnose(LookAtSystem());
    if (*json) {
      PrintJson(findings);
    } else {
      Print(findings);
    }
    *exit = IsFit(findings) ? Exit::kDone : Exit::kNo;
  });
}

}  // namespace ebbtide
