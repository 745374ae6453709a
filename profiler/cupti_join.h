// Joins what a device did to the external ids under which it was started.
#ifndef EBBTIDE_PROFILER_CUPTI_JOIN_H_
#define EBBTIDE_PROFILER_CUPTI_JOIN_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/units.h"
#include "profiler/cupti_records.h"

namespace ebbtide {

// Work of one sort: how often, how long in all, how many bytes.
struct WorkSum {
  int64_t count = 0;
  int64_t nanos = 0;
  Bytes bytes{};
  friend bool operator==(const WorkSum&, const WorkSum&) = default;
};

struct WorkTotals {
  WorkSum kernels;  // without bytes
  std::array<WorkSum, kCopyDirections> copies;
  WorkSum sets;
  friend bool operator==(const WorkTotals&, const WorkTotals&) = default;
};

// How long a device had any work of a sort. Work that overlaps counts once, so
// that none is longer than the interval it lies in.
struct DeviceBusy {
  uint32_t device = 0;
  int64_t begin = 0;  // begin of the first work
  int64_t end = 0;    // end of the last work
  int64_t kernels = 0;
  int64_t copies = 0;  // and sets
  int64_t any = 0;
  friend bool operator==(const DeviceBusy&, const DeviceBusy&) = default;
};

struct WorkProfile {
  std::map<uint64_t, WorkTotals> by_id;  // ids under which there was work
  WorkTotals unattributed;               // work that belongs to no id
  std::vector<DeviceBusy> devices;       // in the order of their numbers
  friend bool operator==(const WorkProfile&, const WorkProfile&) = default;
};

// Ids are those that CuptiWindow::Push was given; others' are passed over. The
// order of records does not matter. DataLoss where they cannot be right: work
// without times or that ends before it begins, two ids for one call, sums
// beyond 64 bits. O(n log n).
absl::StatusOr<WorkProfile> JoinWork(const CuptiRecords& records);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_JOIN_H_
