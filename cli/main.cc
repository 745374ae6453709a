// The program `ebbtide`: one file per sub-command, this one dispatches.
#include <CLI/CLI.hpp>

#include "cli/command.h"

int main(int argc, char** argv) {
  using ebbtide::Exit;
  CLI::App app("Plans and runs training inside a memory budget.", "ebbtide");
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
    app.exit(error);  // prints it; CLI11's own codes are no contract of ours
    exit = Exit::kUsage;
  } catch (const std::exception& error) {
    ebbtide::PrintError(error.what());
    exit = Exit::kUsage;
  }
  return static_cast<int>(exit);
}
