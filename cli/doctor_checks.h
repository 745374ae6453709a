// Helpers of the doctor's checks. Private to it.
#ifndef EBBTIDE_CLI_DOCTOR_CHECKS_H_
#define EBBTIDE_CLI_DOCTOR_CHECKS_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/doctor.h"

namespace ebbtide {

using Findings = std::vector<Finding>;

inline Finding Ok(std::string name, std::string what) {
  return {.name = std::move(name), .what = std::move(what)};
}

inline Finding Limited(std::string name, std::string what, std::string advice) {
  return {Finding::State::kLimited, std::move(name), std::move(what),
          std::move(advice)};
}

// A missing thing that CPU mode does without.
inline Finding Missing(std::string name, std::string what, std::string advice) {
  return {Finding::State::kMissing, std::move(name), std::move(what),
          std::move(advice)};
}

inline Finding Needed(std::string name, std::string what, std::string advice) {
  Finding finding =
      Missing(std::move(name), std::move(what), std::move(advice));
  finding.is_needed = true;
  return finding;
}

// "" where it is not set.
inline std::string Variable(const SystemView& system, const std::string& name) {
  const auto found = system.variables.find(name);
  return found == system.variables.end() ? "" : found->second;
}

// Under either of its names.
inline std::string OffloadFolder(const SystemView& system) {
  const std::string folder = Variable(system, "EBBTIDE_OFFLOAD_DIR");
  return folder.empty() ? Variable(system, "EBBTIDE_SPILL_DIR") : folder;
}

inline bool IsOn(const SystemView& system, const std::string& name) {
  const std::string value = Variable(system, name);
  return !value.empty() && value != "0";
}

// cli/doctor_variables.cc
Findings CheckPreloaded(const SystemView& system);
Findings CheckTorchAllocator(const SystemView& system);
Findings CheckNames(const SystemView& system);
Findings CheckValues(const SystemView& system);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_DOCTOR_CHECKS_H_
