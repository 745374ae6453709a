#include "cli/command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "planner/size.h"

namespace ebbtide {

absl::StatusOr<Bytes> ParsePlanBudget(const std::string& text) {
  absl::StatusOr<Bytes> budget = ParseSize(text);
  if (budget.ok()) return budget;
  return absl::InvalidArgumentError(
      absl::StrCat("--budget: ", budget.status().message()));
}

Exit NoPlan(const std::string& solver, const std::string& budget,
            const std::string& least_budget) {
  PrintError(absl::StrCat("infeasible: solver ", solver, " has no plan within ",
                          budget, "; its least feasible budget is ",
                          least_budget));
  return Exit::kNo;
}

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

double PercentAtMost(double share) {
  return std::max(0.0, std::ceil(1e4 * share - 1e-6) / 100);
}

}  // namespace ebbtide
