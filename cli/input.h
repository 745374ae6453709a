// Reads INPUT.json of plan, curve and check: a chain, a profile, or a run that
// was recorded with its profile in it.
#ifndef EBBTIDE_CLI_INPUT_H_
#define EBBTIDE_CLI_INPUT_H_

#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "planner/chain.h"
#include "planner/profile.h"

namespace ebbtide {

using Input = std::variant<Chain, Profile>;

absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status WriteFile(const std::string& path, const std::string& text);

// True if the file begins as a recorded run does. Errors: as ReadFile.
absl::StatusOr<bool> IsTrace(const std::string& path);

// Errors name the file, the place and what was expected.
absl::StatusOr<Input> ReadInput(const std::string& path);

// --threads of plan and curve, which only chains take.
void AddThreadsOption(CLI::App* command, int* threads);
absl::Status CheckThreads(const Input& input, int threads);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_INPUT_H_
