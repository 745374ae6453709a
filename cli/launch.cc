#include "cli/launch.h"

#include <glob.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "cli/command.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

constexpr char kPreload[] = "libebbtide_preload.so";

// Warns of settings that will disable the runtime although everything is in
// order here.
void WarnOfSwitches() {
  const char* autoload = std::getenv("TORCH_DEVICE_BACKEND_AUTOLOAD");
  if (autoload != nullptr && std::strcmp(autoload, "0") == 0) {
    PrintError(
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set: ebbtide will not be loaded "
        "into Python programs");
  }
  const char* disable = std::getenv("EBBTIDE_DISABLE");
  if (disable != nullptr && *disable != '\0' &&
      std::strcmp(disable, "0") != 0) {
    PrintError("EBBTIDE_DISABLE is set: ebbtide will do nothing");
  }
}

}  // namespace

// Beside the program as it is installed or built, or in the site-packages of
// the environment whose bin/ it is in.
absl::StatusOr<std::string> FindPreload() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path bin = self.parent_path();
  const std::string patterns[] = {
      (bin / "../lib" / kPreload).string(),
      (bin / "../lib/python3*/site-packages/ebbtide/lib" / kPreload).string(),
      (bin / "../hooks" / kPreload).string(),
  };
  for (const std::string& pattern : patterns) {
    glob_t found = {};
    std::string path;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
      path = fs::canonical(found.gl_pathv[0], error).string();
    }
    globfree(&found);
    if (path.empty()) continue;
    if (path.find_first_of(" :") != std::string::npos) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": LD_PRELOAD cannot name a path with a space or a colon"));
    }
    return path;
  }
  return absl::NotFoundError(absl::StrCat("no ", kPreload, " at ", patterns[0],
                                          ", ", patterns[1], " or ",
                                          patterns[2]));
}

absl::Status PutInEnvironment(const Environment& environment) {
  const auto preload = FindPreload();
  if (!preload.ok()) return preload.status();
  WarnOfSwitches();
  for (const auto& [variable, value] : environment) {
    setenv(variable.c_str(), value.c_str(), 1);
  }
  const char* others = std::getenv("LD_PRELOAD");
  const bool alone = others == nullptr || *others == '\0';
  setenv("LD_PRELOAD",
         (alone ? *preload : absl::StrCat(*preload, ":", others)).c_str(), 1);
  return absl::OkStatus();
}

void AddProgram(CLI::App& command, std::vector<std::string>* words) {
  command.add_option("CMD", *words, "After --: the program and its arguments")
      ->required()
      ->type_name("");
}

std::string WhyNotStarted(const std::string& program, int error) {
  return absl::StrCat(
      program, ": ",
      error == ENOENT ? "command not found" : std::strerror(error));
}

}  // namespace ebbtide
