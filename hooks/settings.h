// The environment of a run (design: section 9), read once at start.
#ifndef EBBTIDE_HOOKS_SETTINGS_H_
#define EBBTIDE_HOOKS_SETTINGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "planner/units.h"

namespace ebbtide {

struct Settings {
  std::optional<Bytes> budget;  // EBBTIDE_BUDGET; none: record only
  std::string spill_dir;        // EBBTIDE_SPILL_DIR; empty: no spill
  Bytes spill_limit{-1};        // EBBTIDE_SPILL_LIMIT; negative: none
  std::string record;           // EBBTIDE_RECORD, FILE of FILE[,max=SIZE]
  Bytes record_limit{-1};       // its max=SIZE; negative: none
  std::string report;           // EBBTIDE_REPORT
  bool strict = false;          // EBBTIDE_STRICT
  int64_t verify_every = 0;     // EBBTIDE_VERIFY; 1: all
  enum class Log { kOff, kLine, kDebug } log = Log::kLine;
};

// Errors name the variable, its value and the expected form.
absl::StatusOr<Settings> SettingsFromEnvironment();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_SETTINGS_H_
