// Programs with ebbtide in them: what run and fit share.
#ifndef EBBTIDE_CLI_LAUNCH_H_
#define EBBTIDE_CLI_LAUNCH_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebbtide {

using Environment = std::map<std::string, std::string>;

// The preload library, where it would be installed or built. Errors: there is
// none, or LD_PRELOAD cannot name it.
absl::StatusOr<std::string> FindPreload();

// Sets the variables in this process, for a program that it starts or becomes,
// and puts the preload library in front of LD_PRELOAD. Prints on standard error
// which settings will disable the runtime nevertheless. Errors: there is no
// such library where it would be installed or built.
absl::Status PutInEnvironment(const Environment& environment);

// CMD: the program and its arguments, after the command's own options.
void AddProgram(CLI::App& command, std::vector<std::string>* words);

// Why a program did not start, from its errno: "prog: command not found".
std::string WhyNotStarted(const std::string& program, int error);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_LAUNCH_H_
