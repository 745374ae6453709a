// ebbtide run [--budget B] ... -- CMD...
//
// Becomes CMD, with the settings in its environment and the preload library in
// front of LD_PRELOAD.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "allocator/spill_file.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::optional<std::string> budget;
  std::optional<std::string> host_budget;
  std::optional<std::string> offload_dir;
  std::optional<std::string> offload_limit;
  std::optional<std::string> record;
  std::optional<std::string> report;
  std::optional<std::string> verify;
  bool strict = false;
  std::vector<std::string> command;
};

absl::Status Wrong(absl::string_view option, absl::string_view value,
                   absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", value, ": ", expected));
}

// CMD may change its directory before the runtime looks at a path.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.string();
}

// A file that can be written, as far as that is known before CMD runs.
absl::StatusOr<std::string> OutputFile(absl::string_view option,
                                       const std::string& path) {
  const std::string absolute = Absolute(path);
  std::error_code error;
  if (path.empty() || fs::is_directory(absolute, error)) {
    return Wrong(option, path, "expected a file");
  }
  const bool exists = fs::exists(absolute, error);
  const std::string written =
      exists ? absolute : fs::path(absolute).parent_path().string();
  if (access(written.c_str(), W_OK) != 0) {
    return Wrong(
        option, path,
        absl::StrCat("cannot write to ", written, ": ", std::strerror(errno)));
  }
  return absolute;
}

absl::StatusOr<std::string> Budget(absl::string_view option,
                                   const std::string& text) {
  const auto budget = ParseBudget(text);
  if (!budget.ok()) return Wrong(option, text, budget.status().message());
  return text;
}

absl::StatusOr<std::string> Size(absl::string_view option,
                                 const std::string& text) {
  const auto size = ParseSize(text);
  if (!size.ok()) return Wrong(option, text, size.status().message());
  return text;
}

absl::StatusOr<std::string> OffloadDir(absl::string_view option,
                                       const std::string& text) {
  if (text == "none") return text;
  std::error_code error;
  if (!fs::is_directory(text, error)) {
    return Wrong(option, text, "expected a directory on a disk, or none");
  }
  const auto opened = SpillFile::Open(text, /*limit=*/Bytes{-1});
  if (!opened.ok()) return Wrong(option, text, opened.status().message());
  return Absolute(text);
}

// FILE[,max=SIZE]
absl::StatusOr<std::string> Record(absl::string_view option,
                                   const std::string& text) {
  constexpr char kMax[] = ",max=";
  const size_t comma = text.rfind(kMax);
  auto file = OutputFile(option, text.substr(0, comma));
  if (!file.ok() || comma == std::string::npos) return file;
  auto max = Size(option, text.substr(comma + std::strlen(kMax)));
  if (!max.ok()) return max;
  return absl::StrCat(*file, kMax, *max);
}

absl::StatusOr<std::string> Verify(absl::string_view option,
                                   const std::string& text) {
  int64_t steps = 0;
  if (text == "all" || (absl::SimpleAtoi(text, &steps) && steps > 0)) {
    return text;
  }
  return Wrong(option, text, "expected a number of steps above 0, or all");
}

// The variables that say what the options say. The options win over variables
// that are set already.
absl::StatusOr<Environment> MakeEnvironment(const Arguments& arguments) {
  struct Setting {
    const char* option;
    const char* variable;
    const std::optional<std::string>& value;
    absl::StatusOr<std::string> (*check)(absl::string_view option,
                                         const std::string& text);
  };
  const Setting settings[] = {
      {"--budget", "EBBTIDE_BUDGET", arguments.budget, Budget},
      {"--host-budget", "EBBTIDE_HOST_BUDGET", arguments.host_budget, Budget},
      {"--offload-dir", "EBBTIDE_OFFLOAD_DIR", arguments.offload_dir,
       OffloadDir},
      {"--offload-limit", "EBBTIDE_OFFLOAD_LIMIT", arguments.offload_limit,
       Size},
      {"--record", "EBBTIDE_RECORD", arguments.record, Record},
      {"--report", "EBBTIDE_REPORT", arguments.report, OutputFile},
      {"--verify", "EBBTIDE_VERIFY", arguments.verify, Verify},
  };
  Environment environment;
  for (const Setting& setting : settings) {
    if (!setting.value) continue;
    const auto value = setting.check(setting.option, *setting.value);
    if (!value.ok()) return value.status();
    environment[setting.variable] = *value;
  }
  if (arguments.strict) environment["EBBTIDE_STRICT"] = "1";
  environment["EBBTIDE_PROGRESS"] = "1";
  if (!environment.contains("EBBTIDE_BUDGET") &&
      !environment.contains("EBBTIDE_RECORD") &&
      std::getenv("EBBTIDE_BUDGET") == nullptr &&
      std::getenv("EBBTIDE_RECORD") == nullptr) {
    return absl::InvalidArgumentError(
        "run: nothing to do; expected --budget B or --record FILE");
  }
  return environment;
}

Exit Become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execvp(words[0], words.data());
  PrintError(WhyNotStarted(command[0], errno));
  return Exit::kUsage;
}

Exit Run(const Arguments& arguments) {
  const auto environment = MakeEnvironment(arguments);
  if (!environment.ok()) return ExitFor(environment.status());
  if (auto s = PutInEnvironment(*environment); !s.ok()) return ExitFor(s);
  return Become(arguments.command);
}

}  // namespace

void AddRunCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "run", "Runs a program inside a budget; ends with its exit status");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("--budget", arguments->budget,
                   "8GiB, 80%, auto, or per device: cuda:0=8GiB,cpu=16GiB")
      ->type_name("B");
  command
      ->add_option("--host-budget", arguments->host_budget, "Of the host tier")
      ->type_name("B");
  command
      ->add_option("--offload-dir,--spill-dir", arguments->offload_dir,
                   "Folder on a disk for offloaded bytes; default $TMPDIR")
      ->type_name("D|none");
  command
      ->add_option("--offload-limit,--spill-limit", arguments->offload_limit,
                   "Most bytes in that folder")
      ->type_name("B");
  command
      ->add_option("--record", arguments->record, "Writes a trace for timeline")
      ->type_name("FILE[,max=B]");
  command
      ->add_option("--report", arguments->report,
                   "Writes a JSON report at the end")
      ->type_name("FILE");
  command->add_flag("--strict", arguments->strict,
                    "Out of memory instead of more than the budget");
  command
      ->add_option("--verify", arguments->verify,
                   "Compares one recomputed value every N steps, or all")
      ->type_name("N|all");
  AddProgram(*command, &arguments->command);
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
