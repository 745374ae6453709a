// The doctor's checks of the environment.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/doctor_checks.h"

namespace ebbtide {
namespace {

// All that any part of ebbtide reads.
constexpr const char* kVariables[] = {
    "EBBTIDE_BUDGET",     "EBBTIDE_HOST_BUDGET",   "EBBTIDE_OFFLOAD_DIR",
    "EBBTIDE_SPILL_DIR",  "EBBTIDE_OFFLOAD_LIMIT", "EBBTIDE_SPILL_LIMIT",
    "EBBTIDE_RECORD",     "EBBTIDE_REPORT",        "EBBTIDE_STRICT",
    "EBBTIDE_VERIFY",     "EBBTIDE_CUPTI",         "EBBTIDE_WEIGHTS",
    "EBBTIDE_LOG",        "EBBTIDE_DISABLE",       "EBBTIDE_MIN_BYTES",
    "EBBTIDE_RECOMPUTE",  "EBBTIDE_SIGNATURES",    "EBBTIDE_TEST_PLANS",
    "EBBTIDE_LOADED_PID", "EBBTIDE_PROGRESS",      "EBBTIDE_COMPILE",
    "EBBTIDE_TEST_WAIT",
};

int Distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i));
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string NearestTo(const std::string& name) {
  constexpr int kNear = 3;
  const auto nearest =
      std::min_element(std::begin(kVariables), std::end(kVariables),
                       [&](const char* a, const char* b) {
                         return Distance(name, a) < Distance(name, b);
                       });
  return Distance(name, *nearest) > kNear ? "" : *nearest;
}

}  // namespace

Findings CheckPreloaded(const SystemView& system) {
  constexpr const char* kAllocators[] = {"jemalloc", "tcmalloc", "mimalloc",
                                         "hoard", "snmalloc"};
  Findings findings;
  const std::vector<std::string> libraries = absl::StrSplit(
      Variable(system, "LD_PRELOAD"), absl::ByAnyChar(" :"), absl::SkipEmpty());
  for (const std::string& library : libraries) {
    if (absl::StrContains(library, "libebbtide")) continue;
    const bool is_allocator = std::any_of(
        std::begin(kAllocators), std::end(kAllocators),
        [&](const char* name) { return absl::StrContains(library, name); });
    findings.push_back(
        is_allocator
            ? Limited("LD_PRELOAD", library,
                      "what it retains of small blocks counts as no one's: "
                      "resident memory may be above the budget by that")
            : Ok("LD_PRELOAD", absl::StrCat(library, " is loaded, too")));
  }
  return findings;
}

Findings CheckTorchAllocator(const SystemView& system) {
  Findings findings;
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const std::string value = Variable(system, name);
    if (absl::StrContains(value, "cudaMallocAsync")) {
      findings.push_back(Limited(
          name, value,
          "of that allocator only statistics are seen: the budget is held by "
          "them, and nothing is evicted; unset the backend"));
    } else if (!value.empty()) {
      findings.push_back(Ok(name, value));
    }
  }
  for (const char* name :
       {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING"}) {
    if (!Variable(system, name).empty()) {
      findings.push_back(
          Limited(name, "hides CUDA memory: no budget there", "unset it"));
    }
  }
  return findings;
}

Findings CheckNames(const SystemView& system) {
  Findings findings;
  for (const auto& [name, value] : system.variables) {
    if (!absl::StartsWith(absl::AsciiStrToUpper(name), "EBBTIDE")) continue;
    if (std::count(std::begin(kVariables), std::end(kVariables),
                   std::string_view(name)) > 0) {
      continue;
    }
    const std::string meant = NearestTo(absl::AsciiStrToUpper(name));
    findings.push_back(Limited(name, "nothing reads this variable",
                               meant.empty()
                                   ? std::string("unset it")
                                   : absl::StrCat("set ", meant, " instead")));
  }
  return findings;
}

Findings CheckValues(const SystemView& system) {
  Findings findings;
  if (!system.settings_problem.empty()) {
    findings.push_back(
        Needed("variables", system.settings_problem, "give it that form"));
  }
  if (IsOn(system, "EBBTIDE_DISABLE")) {
    findings.push_back(
        Needed("variables", "EBBTIDE_DISABLE turns ebbtide off", "unset it"));
  }
  const bool is_bound = !Variable(system, "EBBTIDE_BUDGET").empty();
  if (is_bound && Variable(system, "EBBTIDE_RECOMPUTE") == "0" &&
      OffloadFolder(system) == "none") {
    findings.push_back(Limited("variables",
                               "EBBTIDE_RECOMPUTE=0 and "
                               "EBBTIDE_OFFLOAD_DIR=none leave nothing to hold "
                               "a budget by",
                               "unset one of them"));
  }
  // Options of a budget, without one.
  for (const char* name :
       {"EBBTIDE_STRICT", "EBBTIDE_VERIFY", "EBBTIDE_WEIGHTS",
        "EBBTIDE_COMPILE", "EBBTIDE_TEST_WAIT", "EBBTIDE_HOST_BUDGET"}) {
    if (is_bound || !IsOn(system, name)) continue;
    findings.push_back(Limited("variables",
                               absl::StrCat(name, " is for runs with a budget"),
                               "set EBBTIDE_BUDGET, or use `ebbtide run`"));
  }
  if (!is_bound && Variable(system, "EBBTIDE_RECORD").empty() &&
      !Variable(system, "EBBTIDE_REPORT").empty()) {
    findings.push_back(Limited("variables",
                               "EBBTIDE_REPORT alone: nothing is managed, so "
                               "there is nothing to report",
                               "set EBBTIDE_BUDGET or EBBTIDE_RECORD"));
  }
  if (!Variable(system, "EBBTIDE_LOADED_PID").empty()) {
    findings.push_back(Limited("variables",
                               "EBBTIDE_LOADED_PID is left from a managed "
                               "program that started this one",
                               "unset it"));
  }
  if (findings.empty()) findings.push_back(Ok("variables", "no conflict"));
  return findings;
}

}  // namespace ebbtide
