#include "hooks/settings.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

const char* Get(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

absl::Status Named(const char* name, const char* value,
                   const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=", value, ": ", why.message()));
}

// First integer of a file, or -1: "max" and missing files mean no limit.
int64_t NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t number = -1;
  file >> number;
  return file ? number : -1;
}

// The device of CPU mode is RAM, or what the cgroup leaves of it.
int64_t DeviceBytes() {
  struct sysinfo info {};
  sysinfo(&info);
  int64_t bytes = static_cast<int64_t>(info.totalram) * info.mem_unit;
  for (const char* path : {"/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const int64_t limit = NumberIn(path); limit > 0) {
      bytes = std::min(bytes, limit);
    }
  }
  return bytes;
}

int64_t FreeBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes >> unit) {
    if (key == "MemAvailable:") return std::min(kibibytes << 10, DeviceBytes());
  }
  return DeviceBytes();
}

// How many processes of the job share that memory, as launchers say it.
int ProcessesOnMachine() {
  const char* text = Get("LOCAL_WORLD_SIZE");
  int count = 0;
  return text != nullptr && absl::SimpleAtoi(text, &count) && count > 0 ? count
                                                                        : 1;
}

}  // namespace

Bytes CpuBytes() { return Bytes{DeviceBytes() / ProcessesOnMachine()}; }
Bytes FreeCpuBytes() { return Bytes{FreeBytes() / ProcessesOnMachine()}; }

namespace {

absl::Status ReadBudget(Settings* settings) {
  const char* text = Get("EBBTIDE_BUDGET");
  if (text == nullptr) return absl::OkStatus();
  const auto budgets = ParseBudget(text);
  if (!budgets.ok()) return Named("EBBTIDE_BUDGET", text, budgets.status());
  for (const DeviceBudget& budget : *budgets) {
    if (budget.device.empty() || budget.device == "cpu") {
      settings->budget = Resolve(budget.amount, CpuBytes(), FreeCpuBytes());
    }
    if (budget.device != "cpu") settings->cuda_budgets.push_back(budget);
  }
  return absl::OkStatus();
}

// A variable that has an older name.
const char* EitherName(const char* name, const char* older) {
  return Get(name) == nullptr && Get(older) != nullptr ? older : name;
}

absl::Status ReadSpill(Settings* settings) {
  const char* tmp = Get("TMPDIR");
  const char* directory =
      Get(EitherName("EBBTIDE_OFFLOAD_DIR", "EBBTIDE_SPILL_DIR"));
  settings->spill_required = directory != nullptr;
  settings->spill_dir = directory != nullptr ? directory
                        : tmp != nullptr     ? tmp
                                             : "/tmp";
  if (settings->spill_dir == "none") settings->spill_dir.clear();
  const char* name = EitherName("EBBTIDE_OFFLOAD_LIMIT", "EBBTIDE_SPILL_LIMIT");
  if (const char* limit = Get(name)) {
    const auto size = ParseSize(limit);
    if (!size.ok()) return Named(name, limit, size.status());
    settings->spill_limit = *size;
  }
  return absl::OkStatus();
}

absl::Status ReadHostBudget(Settings* settings) {
  const char* text = Get("EBBTIDE_HOST_BUDGET");
  if (text == nullptr) return absl::OkStatus();
  const auto size = ParseSize(text);
  if (!size.ok()) return Named("EBBTIDE_HOST_BUDGET", text, size.status());
  settings->host_budget = *size;
  return absl::OkStatus();
}

absl::Status ReadRecord(Settings* settings) {
  const char* record = Get("EBBTIDE_RECORD");
  if (record == nullptr) return absl::OkStatus();
  const std::vector<std::string> parts =
      absl::StrSplit(record, absl::MaxSplits(",max=", 1));
  settings->record = parts[0];
  if (parts.size() == 2) {
    const auto size = ParseSize(parts[1]);
    if (!size.ok()) return Named("EBBTIDE_RECORD", record, size.status());
    settings->record_limit = *size;
  }
  return absl::OkStatus();
}

absl::Status ReadVerify(Settings* settings) {
  const char* verify = Get("EBBTIDE_VERIFY");
  if (verify == nullptr) return absl::OkStatus();
  if (std::string(verify) == "all") {
    settings->verify_every = 1;
  } else if (!absl::SimpleAtoi(verify, &settings->verify_every) ||
             settings->verify_every < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("EBBTIDE_VERIFY=", verify,
                     ": expected a number of steps from 1 on, or \"all\""));
  }
  return absl::OkStatus();
}

absl::Status ReadMinBytes(Settings* settings) {
  const char* text = Get("EBBTIDE_MIN_BYTES");
  if (text == nullptr) return absl::OkStatus();
  const auto size = ParseSize(text);
  if (!size.ok()) return Named("EBBTIDE_MIN_BYTES", text, size.status());
  settings->min_bytes = *size;
  return absl::OkStatus();
}

absl::Status ReadSignatures(Settings* settings) {
  const char* text = Get("EBBTIDE_SIGNATURES");
  if (text == nullptr) return absl::OkStatus();
  if (!absl::SimpleAtoi(text, &settings->signatures) ||
      settings->signatures < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "EBBTIDE_SIGNATURES=", text, ": expected a number from 1 on"));
  }
  return absl::OkStatus();
}

// `name` is 0 or 1, or not set.
absl::Status ReadSwitch(const char* name, bool* value) {
  const char* text = Get(name);
  if (text == nullptr) return absl::OkStatus();
  if (std::string(text) != "0" && std::string(text) != "1") {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=", text, ": expected 0 or 1"));
  }
  *value = std::string(text) == "1";
  return absl::OkStatus();
}

absl::Status ReadRecompute(Settings* settings) {
  return ReadSwitch("EBBTIDE_RECOMPUTE", &settings->recompute);
}

// Recipes read weights where they are, so with these on the move nothing is
// recomputed.
absl::Status ReadWeights(Settings* settings) {
  absl::Status status = ReadSwitch("EBBTIDE_WEIGHTS", &settings->weights);
  if (!status.ok() || !settings->weights) return status;
  if (settings->spill_dir.empty()) {
    return absl::InvalidArgumentError(
        "EBBTIDE_WEIGHTS=1: expected a folder to move weights to, but "
        "EBBTIDE_OFFLOAD_DIR is none");
  }
  settings->recompute = false;
  return absl::OkStatus();
}

absl::Status ReadCupti(Settings* settings) {
  return ReadSwitch("EBBTIDE_CUPTI", &settings->cupti);
}

// Python's (python/ebbtide/_compile.py): here it is only looked at.
absl::Status ReadCompile(Settings* /*settings*/) {
  bool is_asked = false;
  return ReadSwitch("EBBTIDE_COMPILE", &is_asked);
}

absl::Status ReadProgress(Settings* settings) {
  return ReadSwitch("EBBTIDE_PROGRESS", &settings->progress);
}

absl::Status ReadLog(Settings* settings) {
  const char* log = Get("EBBTIDE_LOG");
  if (log == nullptr) return absl::OkStatus();
  const std::string level = log;
  if (level == "off") {
    settings->log = Settings::Log::kOff;
  } else if (level == "line") {
    settings->log = Settings::Log::kLine;
  } else if (level == "debug") {
    settings->log = Settings::Log::kDebug;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("EBBTIDE_LOG=", level, ": expected off, line or debug"));
  }
  return absl::OkStatus();
}

absl::Status ReadTestPlans(Settings* settings) {
  const char* text = Get("EBBTIDE_TEST_PLANS");
  if (text == nullptr) return absl::OkStatus();
  uint64_t seed = 0;
  if (!absl::SimpleAtoi(text, &seed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "EBBTIDE_TEST_PLANS=", text, ": expected a seed from 0 on"));
  }
  settings->test_plans = seed;
  return absl::OkStatus();
}

}  // namespace

bool HasWork(const Settings& settings) {
  return settings.budget.has_value() || !settings.cuda_budgets.empty() ||
         !settings.record.empty();
}

absl::StatusOr<Settings> SettingsFromEnvironment() {
  Settings settings;
  for (auto read :
       {ReadBudget, ReadSpill, ReadHostBudget, ReadRecord, ReadVerify,
        ReadMinBytes, ReadSignatures, ReadRecompute, ReadWeights, ReadCupti,
        ReadCompile, ReadLog, ReadProgress, ReadTestPlans}) {
    const absl::Status status = read(&settings);
    if (!status.ok()) return status;
  }
  if (const char* report = Get("EBBTIDE_REPORT")) settings.report = report;
  const char* strict = Get("EBBTIDE_STRICT");
  const char* starter = Get("EBBTIDE_LOADED_PID");
  settings.is_below = starter != nullptr && starter != std::to_string(getpid());
  settings.strict = strict != nullptr && std::string(strict) != "0";
  settings.test_wait = Get("EBBTIDE_TEST_WAIT") != nullptr;
  return settings;
}

}  // namespace ebbtide
