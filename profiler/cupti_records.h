// CUPTI's records of a device's work, as plain data. Times are nanoseconds of
// CUPTI's clock, intervals are half-open.
#ifndef EBBTIDE_PROFILER_CUPTI_RECORDS_H_
#define EBBTIDE_PROFILER_CUPTI_RECORDS_H_

#include <cstdint>
#include <vector>

#include "planner/units.h"

namespace ebbtide {

// One piece of work on the device. The call that started it has the same
// correlation id; one call may start many (a graph's launch does).
struct DeviceWork {
  int64_t begin = 0;  // 0 with an end of 0: CUPTI had no times
  int64_t end = 0;
  uint32_t device = 0;
  uint32_t stream = 0;
  uint32_t correlation = 0;
  friend bool operator==(const DeviceWork&, const DeviceWork&) = default;
};

struct KernelRecord {
  DeviceWork work;
  friend bool operator==(const KernelRecord&, const KernelRecord&) = default;
};

enum class CopyDirection : uint8_t {
  kToDevice,
  kToHost,
  kOnDevice,
  kBetweenDevices,
  kOnHost,
  kUnknown,
};
inline constexpr int kCopyDirections = 6;

struct CopyRecord {
  DeviceWork work;
  CopyDirection direction = CopyDirection::kUnknown;
  Bytes bytes{};
  friend bool operator==(const CopyRecord&, const CopyRecord&) = default;
};

struct SetRecord {
  DeviceWork work;
  Bytes bytes{};
  friend bool operator==(const SetRecord&, const SetRecord&) = default;
};

// The id that was on top of the calling thread's stack of ids of `kind` when
// the call with this correlation id was made.
struct ExternalRecord {
  uint32_t kind = 0;
  uint64_t id = 0;
  uint32_t correlation = 0;
  friend bool operator==(const ExternalRecord&,
                         const ExternalRecord&) = default;
};

struct CallRecord {
  bool driver = false;  // a call of the driver's interface, not of the
                        // runtime's
  uint32_t function = 0;
  int64_t begin = 0;
  int64_t end = 0;
  uint32_t thread = 0;
  uint32_t correlation = 0;
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

struct CuptiRecords {
  std::vector<KernelRecord> kernels;
  std::vector<CopyRecord> copies;
  std::vector<SetRecord> sets;
  std::vector<ExternalRecord> externals;
  std::vector<CallRecord> calls;

  int64_t size() const;
  void Append(const CuptiRecords& more);
  friend bool operator==(const CuptiRecords&, const CuptiRecords&) = default;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_RECORDS_H_
