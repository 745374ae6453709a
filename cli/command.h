// Helpers shared by the sub-commands: their registration and their exit status.
#ifndef EBBTIDE_CLI_COMMAND_H_
#define EBBTIDE_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/units.h"

namespace ebbtide {

// Exit status of the program; scripts depend on it.
enum class Exit {
  kDone = 0,
  kNo = 1,     // the answer is no: infeasible, invalid plan
  kUsage = 2,  // wrong usage or input
};

// Each adds its sub-command, whose callback sets `exit`.
void AddPlanCommand(CLI::App& app, Exit* exit);
void AddCurveCommand(CLI::App& app, Exit* exit);
void AddCheckCommand(CLI::App& app, Exit* exit);
void AddRunCommand(CLI::App& app, Exit* exit);
void AddFitCommand(CLI::App& app, Exit* exit);
void AddTimelineCommand(CLI::App& app, Exit* exit);
void AddExplainCommand(CLI::App& app, Exit* exit);
void AddReplayCommand(CLI::App& app, Exit* exit);
void AddDoctorCommand(CLI::App& app, Exit* exit);

// The value of --budget of a plan: one size (planner/size.h has those of a
// job).
absl::StatusOr<Bytes> ParsePlanBudget(const std::string& text);

// Prints that there is no plan, and says how to end. Sizes as they are printed.
Exit NoPlan(const std::string& solver, const std::string& budget,
            const std::string& least_budget);
// Per cent, to hundredths and rounded up: of what is claimed to be no more.
double PercentAtMost(double share);
// Prints "ebbtide: <message>" to the standard error.
void PrintError(const std::string& message);
// Prints the status and says how to end: wrong input, or an error of ours.
Exit ExitFor(const absl::Status& status);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_COMMAND_H_
