// The environment of a run, read once at start.
#ifndef EBBTIDE_HOOKS_SETTINGS_H_
#define EBBTIDE_HOOKS_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/size.h"
#include "planner/units.h"

namespace ebbtide {

struct Settings {
  // EBBTIDE_BUDGET. One size without a device is in both: it is the CPU's until
  // the program uses a CUDA device, and then that of each of these.
  std::optional<Bytes> budget;             // budget of the CPU
  std::vector<DeviceBudget> cuda_budgets;  // devices "cuda", "cuda:N" and ""
  std::string spill_dir;        // EBBTIDE_SPILL_DIR, $TMPDIR; empty: no offload
  bool spill_required = false;  // the user named it
  Bytes spill_limit{int64_t{1} << 60};  // EBBTIDE_SPILL_LIMIT
  std::optional<Bytes> host_budget;     // EBBTIDE_HOST_BUDGET: pinned memory
  std::string record;                   // EBBTIDE_RECORD=FILE[,max=SIZE]
  Bytes record_limit{int64_t{1} << 30};
  std::string report;         // EBBTIDE_REPORT
  bool strict = false;        // EBBTIDE_STRICT
  int64_t verify_every = 0;   // EBBTIDE_VERIFY; 1: all, 0: no re-checks
  Bytes min_bytes{64 << 10};  // EBBTIDE_MIN_BYTES: smallest storage managed
  bool recompute = true;      // EBBTIDE_RECOMPUTE; 0: bytes are moved only
  bool weights = false;       // EBBTIDE_WEIGHTS: weights may leave, too
  int signatures = 128;       // EBBTIDE_SIGNATURES: that are remembered
  bool cupti = false;         // EBBTIDE_CUPTI: times of ops are CUPTI's
  // A process that ebbtide was started in has started this one.
  bool is_below = false;
  enum class Log { kOff, kLine, kDebug };
  Log log = Log::kLine;   // EBBTIDE_LOG
  bool progress = false;  // EBBTIDE_PROGRESS, which `ebbtide run` sets
  // EBBTIDE_TEST_PLANS, for tests of the runtime only: the seed of random plans
  // (planner/random_plan.h) that are followed instead of good ones, by every
  // step that comes again, whatever its memory and its time.
  std::optional<uint64_t> test_plans;
  // EBBTIDE_TEST_WAIT, for tests only: a step begins when the plans asked for
  // so far are made, so that how long planning takes decides nothing.
  bool test_wait = false;
};

// CpuBytes: size of the CPU's memory, RAM or the cgroup's limit. FreeCpuBytes:
// the free part of it.
Bytes CpuBytes();
Bytes FreeCpuBytes();

// True if the environment asks for anything at all.
bool HasWork(const Settings& settings);

// Errors name the variable, its value and the expected form.
absl::StatusOr<Settings> SettingsFromEnvironment();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_SETTINGS_H_
