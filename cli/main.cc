// The program `ebbtide`: one file per sub-command, this one dispatches.
#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "cli/command.h"

namespace {

// Returns the first option before "--" that the sub-command does not have, or
// "". A negative number is a value.
std::string UnknownOption(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands();
  if (commands.empty()) return "";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    const std::string name = word.substr(0, word.find('='));
    const bool is_option =
        name.size() > 1 && name[0] == '-' && !absl::ascii_isdigit(name[1]);
    if (is_option && commands[0]->get_option_no_throw(name) == nullptr) {
      return name;
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  using ebbtide::Exit;
  CLI::App app("Plans and runs training inside a memory budget.", "ebbtide");
  app.set_version_flag("--version", "ebbtide " EBBTIDE_VERSION);
  app.require_subcommand(1);
  Exit exit = Exit::kDone;
  ebbtide::AddPlanCommand(app, &exit);
  ebbtide::AddCurveCommand(app, &exit);
  ebbtide::AddCheckCommand(app, &exit);
  ebbtide::AddRunCommand(app, &exit);
  ebbtide::AddFitCommand(app, &exit);
  ebbtide::AddTimelineCommand(app, &exit);
  ebbtide::AddExplainCommand(app, &exit);
  ebbtide::AddReplayCommand(app, &exit);
  ebbtide::AddDoctorCommand(app, &exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    // CLI11 names what follows an unknown option, which it takes for the
    // program to run.
    const std::string unknown = UnknownOption(app, argc, argv);
    if (!unknown.empty()) {
      ebbtide::PrintError("unknown option " + unknown);
      return static_cast<int>(Exit::kUsage);
    }
    app.exit(error);  // prints it; CLI11's own codes are no contract of ours
    exit = Exit::kUsage;
  } catch (const std::exception& error) {
    ebbtide::PrintError(error.what());
    exit = Exit::kUsage;
  }
  return static_cast<int>(exit);
}
