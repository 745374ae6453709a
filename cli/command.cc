#include "cli/command.h"

#include <cstdio>

namespace ebbtide {

void PrintError(const std::string& message) {
  std::fprintf(stderr, "ebbtide: %s\n", message.c_str());
}

Exit ExitFor(const absl::Status& status) {
  const std::string message(status.message());
  PrintError(status.code() == absl::StatusCode::kInternal
                 ? "internal error, please report it: " + message
                 : message);
  return Exit::kUsage;
}

}  // namespace ebbtide
