#include "profiler/cupti_join.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "profiler/cupti_api.h"

namespace ebbtide {
namespace {

using IdOfCall = std::unordered_map<uint32_t, uint64_t>;

struct Interval {
  int64_t begin;
  int64_t end;
};
struct Intervals {
  std::vector<Interval> kernels;
  std::vector<Interval> copies;
};

absl::StatusOr<IdOfCall> IdsOfCalls(const std::vector<ExternalRecord>& all) {
  IdOfCall ids;
  ids.reserve(all.size());
  for (const ExternalRecord& external : all) {
    if (external.kind != kCuptiCustom2) continue;
    const auto [known, is_new] = ids.emplace(external.correlation, external.id);
    if (!is_new && known->second != external.id) {
      return absl::DataLossError(absl::StrCat(
          "CUPTI: the call with correlation ", external.correlation,
          " has two ids, ", known->second, " and ", external.id));
    }
  }
  return ids;
}

// A separate function: hardly any record has bad times.
absl::Status BadTimes(const char* what, const DeviceWork& work) {
  const std::string name =
      absl::StrCat("CUPTI: a ", what, " with correlation ", work.correlation);
  if (work.begin <= 0 || work.end <= 0) {
    return absl::DataLossError(absl::StrCat(
        name,
        " has no times; the device was not waited for, or has no memory "
        "for them"));
  }
  return absl::DataLossError(
      absl::StrCat(name, " begins at ", work.begin, " and ends at ", work.end));
}

absl::Status CheckTimes(const char* what, const DeviceWork& work) {
  const bool is_good = work.begin > 0 && work.end >= work.begin;
  return is_good ? absl::OkStatus() : BadTimes(what, work);
}

absl::Status Add(const DeviceWork& work, Bytes bytes, WorkSum* sum) {
  ++sum->count;
  int64_t all = 0;
  if (__builtin_add_overflow(sum->nanos, work.end - work.begin, &sum->nanos) ||
      __builtin_add_overflow(Count(sum->bytes), Count(bytes), &all)) {
    return absl::DataLossError("CUPTI: times or sizes add up beyond 64 bits");
  }
  sum->bytes = Bytes{all};
  return absl::OkStatus();
}

// Length of the union of the intervals. Sorts them. Sorts them.
int64_t LengthOfUnion(std::vector<Interval>* intervals) {
  std::sort(
      intervals->begin(), intervals->end(),
      [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  int64_t length = 0;
  int64_t reached = 0;  // times are positive
  for (const Interval& interval : *intervals) {
    const int64_t begin = std::max(interval.begin, reached);
    if (interval.end > begin) length += interval.end - begin;
    reached = std::max(reached, interval.end);
  }
  return length;
}

DeviceBusy BusyOf(uint32_t device, Intervals intervals) {
  DeviceBusy busy{.device = device};
  busy.kernels = LengthOfUnion(&intervals.kernels);
  busy.copies = LengthOfUnion(&intervals.copies);
  std::vector<Interval> all = std::move(intervals.kernels);
  all.insert(all.end(), intervals.copies.begin(), intervals.copies.end());
  busy.any = LengthOfUnion(&all);
  busy.begin = all.front().begin;
  busy.end = all.front().end;
  for (const Interval& interval : all) {
    busy.end = std::max(busy.end, interval.end);
  }
  return busy;
}

// Adds up work, one piece after another.
class Joiner {
 public:
  explicit Joiner(IdOfCall ids) : ids_(std::move(ids)) {}

  absl::Status AddKernel(const KernelRecord& kernel) {
    const DeviceWork& work = kernel.work;
    absl::Status status = CheckTimes("kernel", work);
    if (!status.ok()) return status;
    intervals_[work.device].kernels.push_back({work.begin, work.end});
    return Add(work, {}, &TotalsOf(work)->kernels);
  }
  absl::Status AddCopy(const CopyRecord& copy) {
    const DeviceWork& work = copy.work;
    absl::Status status = CheckTimes("copy", work);
    if (!status.ok()) return status;
    intervals_[work.device].copies.push_back({work.begin, work.end});
    const auto direction = static_cast<size_t>(copy.direction);
    return Add(work, copy.bytes, &TotalsOf(work)->copies[direction]);
  }
  absl::Status AddSet(const SetRecord& set) {
    const DeviceWork& work = set.work;
    absl::Status status = CheckTimes("set", work);
    if (!status.ok()) return status;
    intervals_[work.device].copies.push_back({work.begin, work.end});
    return Add(work, set.bytes, &TotalsOf(work)->sets);
  }
  WorkProfile Finish() && {
    for (auto& [device, intervals] : intervals_) {
      profile_.devices.push_back(BusyOf(device, std::move(intervals)));
    }
    return std::move(profile_);
  }

 private:
  WorkTotals* TotalsOf(const DeviceWork& work) {
    const auto id = ids_.find(work.correlation);
    return id == ids_.end() ? &profile_.unattributed
                            : &profile_.by_id[id->second];
  }

  const IdOfCall ids_;
  std::map<uint32_t, Intervals> intervals_;  // by device
  WorkProfile profile_;
};

}  // namespace

absl::StatusOr<WorkProfile> JoinWork(const CuptiRecords& records) {
  auto ids = IdsOfCalls(records.externals);
  if (!ids.ok()) return ids.status();
  Joiner joiner(*std::move(ids));
  absl::Status status;
  for (const KernelRecord& kernel : records.kernels) {
    status.Update(joiner.AddKernel(kernel));
  }
  for (const CopyRecord& copy : records.copies) {
    status.Update(joiner.AddCopy(copy));
  }
  for (const SetRecord& set : records.sets) {
    status.Update(joiner.AddSet(set));
  }
  if (!status.ok()) return status;
  return std::move(joiner).Finish();
}

}  // namespace ebbtide
