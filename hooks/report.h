// Results of a run, for the closing line and EBBTIDE_REPORT.
#ifndef EBBTIDE_HOOKS_REPORT_H_
#define EBBTIDE_HOOKS_REPORT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "hooks/coverage.h"
#include "hooks/host_tier.h"
#include "hooks/out_of_memory.h"
#include "hooks/step_log.h"
#include "hooks/step_work.h"
#include "hooks/tier_words.h"
#include "planner/units.h"

namespace ebbtide {

// State of a planned arena (allocator/arena/step_arena.h).
struct ArenaReport {
  std::string state;
  std::string reason;  // reason for its last retreat; empty: there was none
  Bytes height{};      // height of the last layout
  Bytes bound{};       // lower bound on the height of any layout
  Bytes size{};        // pages of the plan's addresses now
  int64_t moves = 0;   // pages that were mapped elsewhere or given back
  // Bytes on the device beside it when the second step that it served began,
  // and the live part of them.
  Bytes beside{};
  Bytes beside_alive{};
  int64_t retreats = 0;
  int64_t planned = 0;      // requests that it served as planned
  Bytes planned_bytes{};    // bytes of those requests
  int64_t elsewhere = 0;    // that it served otherwise
  Bytes elsewhere_bytes{};  // bytes of those requests
  int64_t mismatches = 0;   // that were not as planned, or did not come
  struct Mismatches {
    int64_t requests = 0;
    Bytes bytes{};
  };
  // Requests while it served that were not as planned, by who made them.
  std::map<std::string, Mismatches> mismatches_by_op;
};

// State of the CUDA devices that the program has used.
struct CudaReport {
  std::string allocator;  // PyTorch's name of it; empty: this torch has no CUDA
  bool is_ours = false;   // ours stands before it
  struct Device {
    std::string name;
    Bytes budget{-1};       // negative: none
    Bytes reserved_peak{};  // peak of the bytes that the budget bounds
    Bytes peak{};           // peak of live bytes
    std::optional<ArenaReport> arena;
  };
  std::vector<Device> devices;
};

// Results of EBBTIDE_WEIGHTS.
struct WeightReport {
  bool is_on = false;
  int64_t bytes_out = 0;
  int64_t bytes_back = 0;
  std::string stopped_because;  // empty: it was not
};

// Device work as recorded by CUPTI (EBBTIDE_CUPTI).
struct CuptiReport {
  bool is_asked = false;
  std::string refused;          // why the first time, if it was
  std::vector<StepWork> steps;  // the first steps whose windows were whole
  StepWork sum;                 // sum of all such steps
  int64_t windows = 0;

  void Add(const StepWork& work);
};

struct RunReport {
  Bytes peak{};              // live bytes, whole run
  Bytes budget{-1};          // negative: none
  Bytes largest_budget{-1};  // that the run has had; as `budget`
  Bytes peak_activations{};  // saved bytes at the largest pair's peak
  Bytes persistent{};        // live bytes when the last pair began
  StepLog steps;
  int64_t over_budget_steps = 0;
  int64_t ops_replayed = 0;
  int64_t bytes_dropped = 0;
  int64_t bytes_spilled = 0;     // to the tier below, of whichever kind
  TierWords words = kDiskWords;  // names of that tier
  int64_t verified = 0;    // recomputed storages compared with what was dropped
  int64_t mismatches = 0;  // compared storages that differed
  // Bytes that could not be dropped where memory was short, by what stood in
  // the way (recovery.h).
  std::map<std::string, int64_t> not_replayable;
  int64_t bytes_restored = 0;  // brought back from the tier below
  WeightReport weights;
  // Rates of the copies out and back; nullopt: there is no tier.
  std::optional<HostTier::CopyRates> out;
  std::optional<HostTier::CopyRates> back;
  // Held when the report was made: saved tensors that have come to us, their
  // bytes on the device (the script may hold them as well) and in the tier
  // below.
  int64_t saved_tensors = 0;
  Bytes saved{};
  Bytes in_file{};
  std::string state;  // at the end
  std::map<std::string, int64_t> steps_by_state;
  int64_t rests = 0;  // times that it fell into State::kIdle: saves then stay
  std::string reason;
  // Kinds of pairs that are remembered, at most, with a plan, and plans in all.
  int64_t signatures = 0;
  int64_t signatures_bound = 0;
  int64_t signatures_planned = 0;
  int64_t plans_made = 0;
  int64_t priced = 0;         // times that a plan's price was found anew
  double predicted_time = 0;  // seconds a step; 0: no plan was used
  Bytes predicted_peak{};
  // Each plan that was followed to its end.
  struct Followed {
    double predicted_time = 0;
    Bytes predicted_peak{};
    bool offloads = false;
  };
  std::vector<Followed> plans;
  // Coverage of the last step that was recorded under a budget, had other ops
  // than the one before it, and whose kind had occurred at most once before.
  std::optional<Coverage> coverage;
  CudaReport cuda;
  CuptiReport cupti;
  // The first request of the program that failed.
  std::optional<OutOfMemory> out_of_memory;
};

// True if more was alive at once than any budget of the run allowed.
bool IsOverBudget(const RunReport& report);
// True if nothing was evicted.
bool IsUntouched(const RunReport& report);
// One line for people, without a newline.
std::string ClosingLine(const RunReport& report);
std::string ReportToJson(const RunReport& report);
// A report in `path` that another process has written since `started` is
// renamed first: "run.pid123.json" for "run.json" and process 123.
absl::Status WriteReport(const RunReport& report, const std::string& path,
                         std::filesystem::file_time_type started);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_REPORT_H_
