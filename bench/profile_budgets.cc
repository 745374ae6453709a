// Prints what a recorded step looks like to the planner, and budgets for it:
//   profile_budgets RUN.ebbtide SHARE...
// SHARE is per cent of the activations. The budget of a share is the peak that
// the unmanaged step would have if every saved tensor had that share of its
// bytes: what no plan can remove (parameters, gradients, what an op needs to
// run) is in it whole, instant by instant. At 100 it is the unmanaged peak.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "planner/least_peak.h"
#include "planner/profile.h"
#include "profiler/trace.h"

namespace ebbtide {
namespace {

absl::StatusOr<Profile> LastProfile(const std::string& path) {
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  if (!trace.ok()) return trace.status();
  for (auto text = trace->texts.rbegin(); text != trace->texts.rend(); ++text) {
    if (text->kind == TextKind::kProfile) {
      return ProfileFromJson(text->text, path);
    }
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": expected a run with a repeated step"));
}

Bytes BudgetOf(Profile profile, double share) {
  for (Value& value : profile.values) {
    if (!value.saved) continue;
    const double bytes = static_cast<double>(Count(value.bytes));
    value.bytes = Bytes{static_cast<int64_t>(bytes * share)};
  }
  return UnmanagedPeak(profile);
}

void Print(const Profile& profile, int shares, char** share) {
  const LeastPeak least = FindLeastPeak(profile, /*offload=*/false);
  nlohmann::json facts = {
      {"ops", profile.ops.size()},
      {"stages", profile.stages.size()},
      {"unmanaged", Count(UnmanagedPeak(profile))},
      {"fixed", Count(BudgetOf(profile, 0))},
      {"time", BaseTime(profile)},
      // Proven: no plan gets below.
      {"floor", Count(least.bytes)},
      {"floor_maker", least.name},
  };
  for (int i = 0; i < shares; ++i) {
    facts["budgets"].push_back(
        Count(BudgetOf(profile, std::atof(share[i]) / 100)));
  }
  std::printf("%s\n", facts.dump().c_str());
}

}  // namespace
}  // namespace ebbtide

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: profile_budgets RUN.ebbtide SHARE...\n");
    return 2;
  }
  const auto profile = ebbtide::LastProfile(argv[1]);
  if (!profile.ok()) {
    std::fprintf(stderr, "profile_budgets: %s\n",
                 std::string(profile.status().message()).c_str());
    return 2;
  }
  ebbtide::Print(*profile, argc - 2, argv + 2);
  return 0;
}
