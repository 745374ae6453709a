#include "hooks/report.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/size.h"

namespace ebbtide {

namespace {

// Returns the part of the closing line about CUDA.
std::string CudaClosing(const CudaReport& cuda) {
  std::string text;
  if (!cuda.allocator.empty() && !cuda.is_ours) {
    absl::StrAppend(&text, "; CUDA's allocator is \"", cuda.allocator,
                    "\", not ours");
  }
  for (const CudaReport::Device& device : cuda.devices) {
    absl::StrAppend(&text, "; ", device.name, " reserved ",
                    FormatSize(device.reserved_peak));
    if (Count(device.budget) >= 0) {
      absl::StrAppend(&text, " of ", FormatSize(device.budget));
    }
  }
  return text;
}

std::string CuptiClosing(const CuptiReport& cupti) {
  const StepWork& sum = cupti.sum;
  const int64_t all = sum.attributed + sum.own + sum.unattributed;
  if (all == 0) return "";
  return absl::StrFormat(
      "; CUPTI timed %d steps, %.1f %% of what the device did is of no op",
      cupti.windows, 1e2 * static_cast<double>(sum.unattributed) / all);
}

}  // namespace

void CuptiReport::Add(const StepWork& work) {
  constexpr size_t kMost = 1 << 10;
  if (steps.size() < kMost) steps.push_back(work);
  ++windows;
  sum.attributed += work.attributed;
  sum.own += work.own;
  sum.unattributed += work.unattributed;
  sum.busy += work.busy;
}

bool IsOverBudget(const RunReport& r) {
  return Count(r.budget) >= 0 && r.peak > r.largest_budget;
}

bool IsUntouched(const RunReport& r) {
  return r.bytes_dropped == 0 && r.bytes_spilled == 0 &&
         r.weights.bytes_out == 0;
}

namespace {

std::string OverBudgetClosing(const RunReport& r) {
  if (r.over_budget_steps > 0) {
    return absl::StrCat("; OVER BUDGET in ", r.over_budget_steps, " steps");
  }
  return IsOverBudget(r) ? "; OVER BUDGET outside of steps" : "";
}

}  // namespace

std::string ClosingLine(const RunReport& r) {
  // While it rests nothing is seen.
  const std::string steps =
      absl::StrCat(r.steps.count(), r.rests > 0 ? " steps watched" : " steps");
  const std::string peak = absl::StrCat(
      "peak ", FormatSize(r.peak),
      Count(r.budget) < 0 ? std::string(", no budget")
                          : absl::StrCat(" of ", FormatSize(r.budget)));
  if (IsUntouched(r)) {
    return absl::StrCat("nothing done (", r.reason, "); ", peak, ", ", steps,
                        OverBudgetClosing(r), CudaClosing(r.cuda),
                        CuptiClosing(r.cupti));
  }
  std::string line = absl::StrCat(peak, ", ", steps, "; recomputed ",
                                  FormatSize(Bytes{r.bytes_dropped}), " by ",
                                  r.ops_replayed, " ops, ", r.words.moved, " ",
                                  FormatSize(Bytes{r.bytes_spilled}));
  if (r.weights.bytes_out > 0) {
    absl::StrAppend(&line, ", weights out ",
                    FormatSize(Bytes{r.weights.bytes_out}), " and back ",
                    FormatSize(Bytes{r.weights.bytes_back}));
  }
  line += OverBudgetClosing(r);
  if (!r.reason.empty()) absl::StrAppend(&line, " (", r.reason, ")");
  return line + CudaClosing(r.cuda) + CuptiClosing(r.cupti);
}

namespace {

nlohmann::ordered_json CoverageToJson(const Coverage& c) {
  auto groups = nlohmann::ordered_json::array();
  for (const CoverageGroup& group : c.groups) {
    groups.push_back({{"tier", group.tier},
                      {"op", group.op},
                      {"reason", group.reason},
                      {"bytes", Count(group.bytes)},
                      {"storages", group.storages}});
  }
  return {{"bytes", Count(c.recomputable + c.offload_only + c.kept)},
          {"recomputable", Count(c.recomputable)},
          {"offload_only", Count(c.offload_only)},
          {"kept", Count(c.kept)},
          {"away", Count(c.away)},
          {"parameters", Count(c.parameters)},
          {"outside", Count(c.outside)},
          {"saves_of_other_threads", c.foreign_saves},
          {"groups", groups}};
}

nlohmann::ordered_json ArenaToJson(const ArenaReport& arena) {
  auto by_op = nlohmann::ordered_json::object();
  for (const auto& [op, what] : arena.mismatches_by_op) {
    by_op[op] = {{"requests", what.requests}, {"bytes", Count(what.bytes)}};
  }
  return {{"state", arena.state},
          {"reason", arena.reason},
          {"height", Count(arena.height)},
          {"bound", Count(arena.bound)},
          {"waste", Count(arena.height - arena.bound)},
          {"size", Count(arena.size)},
          {"moves", arena.moves},
          {"beside", Count(arena.beside)},
          {"beside_alive", Count(arena.beside_alive)},
          {"retreats", arena.retreats},
          {"planned", arena.planned},
          {"planned_bytes", Count(arena.planned_bytes)},
          {"elsewhere", arena.elsewhere},
          {"elsewhere_bytes", Count(arena.elsewhere_bytes)},
          {"mismatches", arena.mismatches},
          {"mismatches_by_op", std::move(by_op)}};
}

nlohmann::ordered_json CudaToJson(const CudaReport& cuda) {
  auto devices = nlohmann::ordered_json::object();
  for (const CudaReport::Device& device : cuda.devices) {
    devices[device.name] = {{"budget", Count(device.budget)},
                            {"reserved_peak", Count(device.reserved_peak)},
                            {"peak", Count(device.peak)}};
    if (device.arena) {
      devices[device.name]["arena"] = ArenaToJson(*device.arena);
    }
  }
  return {{"allocator", cuda.allocator},
          {"is_ours", cuda.is_ours},
          {"devices", std::move(devices)}};
}

nlohmann::ordered_json RatesToJson(const HostTier::CopyRates& rates) {
  return {{"alone", rates.alone},
          {"contended", rates.contended},
          {"planned", rates.planned}};
}

nlohmann::ordered_json CuptiToJson(const CuptiReport& cupti) {
  auto steps = nlohmann::ordered_json::array();
  for (const StepWork& work : cupti.steps) {
    steps.push_back({{"step", work.step},
                     {"attributed", work.attributed},
                     {"own", work.own},
                     {"unattributed", work.unattributed},
                     {"busy", work.busy}});
  }
  return {{"windows", cupti.windows},
          {"refused", cupti.refused},
          {"steps", std::move(steps)}};
}

nlohmann::ordered_json OutOfMemoryToJson(const OutOfMemory& what) {
  auto largest = nlohmann::ordered_json::array();
  for (const OutOfMemory::Block& block : what.largest) {
    largest.push_back({{"bytes", Count(block.bytes)},
                       {"kind", KindName(block.kind)},
                       {"op", block.op},
                       {"held", block.held}});
  }
  auto kinds = nlohmann::ordered_json::object();
  for (int kind = 0; kind < kKinds; ++kind) {
    kinds[KindName(static_cast<Kind>(kind))] = Count(what.live_by_kind[kind]);
  }
  return {{"request", Count(what.request)},
          {"device", what.device},
          {"where", what.where},
          {"step", what.step},
          {"budget", Count(what.budget)},
          {"live", Count(what.live)},
          {"live_by_kind", std::move(kinds)},
          {"largest", std::move(largest)},
          {"floor", what.floor},
          {"helps", what.helps},
          {"file", what.file}};
}

// The last steps, and who followed which plan; numbers are those of the run.
void AddSteps(const RunReport& r, nlohmann::ordered_json* json) {
  auto times = nlohmann::ordered_json::array();
  auto peaks = nlohmann::ordered_json::array();
  auto foreseen = nlohmann::ordered_json::array();
  auto plans = nlohmann::ordered_json::array();
  for (const RunReport::Followed& plan : r.plans) {
    plans.push_back({{"predicted_time", plan.predicted_time},
                     {"predicted_peak", Count(plan.predicted_peak)},
                     {"offloads", plan.offloads},
                     {"steps", nlohmann::ordered_json::array()}});
  }
  int64_t number = r.steps.first();
  for (const auto& [seconds, peak, plan, seconds_foreseen] : r.steps.known()) {
    times.push_back(seconds);
    peaks.push_back(Count(peak));
    foreseen.push_back(seconds_foreseen);
    if (plan >= 0) plans[plan]["steps"].push_back(number);
    ++number;
  }
  json->update({{"first_step", r.steps.first()},
                {"step_times", std::move(times)},
                {"step_peaks", std::move(peaks)},
                {"step_predictions", std::move(foreseen)},
                {"plans", std::move(plans)}});
}

}  // namespace

std::string ReportToJson(const RunReport& r) {
  nlohmann::ordered_json json = {
      {"peak", Count(r.peak)},
      {"budget", Count(r.budget)},
      {"peak_activations", Count(r.peak_activations)},
      {"persistent", Count(r.persistent)},
      {"steps", r.steps.count()},
      {"over_budget_steps", r.over_budget_steps},
      {"ops_replayed", r.ops_replayed},
      {"bytes_by_tier",
       {{"device", Count(r.peak)},
        {"dropped", r.bytes_dropped},
        {"disk", r.bytes_spilled}}},
      {"bytes_spilled", r.bytes_spilled},
      {"bytes_restored", r.bytes_restored},
      {"weights",
       {{"is_on", r.weights.is_on},
        {"bytes_out", r.weights.bytes_out},
        {"bytes_back", r.weights.bytes_back},
        {"stopped", r.weights.stopped_because}}},
      {"held",
       {{"saved_tensors", r.saved_tensors},
        {"device", Count(r.saved)},
        {"disk", Count(r.in_file)}}},
      {"verified", r.verified},
      {"mismatches", r.mismatches},
      {"not_replayable", r.not_replayable},
      {"signatures",
       {{"remembered", r.signatures},
        {"bound", r.signatures_bound},
        {"planned", r.signatures_planned},
        {"plans_made", r.plans_made},
        {"priced", r.priced}}},
      {"predicted_time", r.predicted_time},
      {"predicted_peak", Count(r.predicted_peak)},
      {"pid", getpid()},
      {"state", r.state},
      {"steps_by_state", r.steps_by_state},
      {"rests", r.rests},
      {"reason", r.reason}};
  AddSteps(r, &json);
  if (!r.cuda.allocator.empty()) json["cuda"] = CudaToJson(r.cuda);
  if (r.out && r.back) {
    json["bandwidth"] = {{"out", RatesToJson(*r.out)},
                         {"back", RatesToJson(*r.back)}};
  }
  if (r.cupti.is_asked) json["cupti"] = CuptiToJson(r.cupti);
  if (r.coverage) json["saved"] = CoverageToJson(*r.coverage);
  if (r.out_of_memory) {
    json["out_of_memory"] = OutOfMemoryToJson(*r.out_of_memory);
  }
  return json.dump(1);
}

namespace {

void KeepReportOfAnother(const std::filesystem::path& path,
                         std::filesystem::file_time_type started) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) ||
      std::filesystem::last_write_time(path, error) < started) {
    return;
  }
  std::ifstream in(path);
  const auto other = nlohmann::json::parse(in, nullptr, false);
  if (!other.is_object() || !other.contains("pid") ||
      !other["pid"].is_number_integer() || other["pid"] == getpid()) {
    return;
  }
  auto kept = path;
  kept.replace_extension(absl::StrCat("pid", other["pid"].get<int64_t>(),
                                      path.extension().string()));
  std::filesystem::rename(path, kept, error);
}

}  // namespace

absl::Status WriteReport(const RunReport& report, const std::string& path,
                         std::filesystem::file_time_type started) {
  KeepReportOfAnother(path, started);
  std::ofstream out(path);
  out << ReportToJson(report) << '\n';
  out.close();
  if (!out) {
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot write the report"));
  }
  return absl::OkStatus();
}

}  // namespace ebbtide
