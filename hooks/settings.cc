#include "hooks/settings.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ebbtide {

absl::StatusOr<Settings> SettingsFromEnvironment() {
  Settings settings;
  if (const char* budget = std::getenv("EBBTIDE_BUDGET")) {
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(budget, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("EBBTIDE_BUDGET=", budget));
    }
    settings.budget = Bytes{bytes};
  }
  if (const char* report = std::getenv("EBBTIDE_REPORT")) {
    settings.report = report;
  }
  if (const char* dir = std::getenv("EBBTIDE_SPILL_DIR")) {
    settings.spill_dir = dir;
  }
  if (const char* record = std::getenv("EBBTIDE_RECORD")) {
    settings.record = record;
  }
  return settings;
}

}  // namespace ebbtide
