// The functions of the simulated CUPTI (tests/cudasim/cupti_control.h) that is
// linked to the tests, and a device for it that is a clock and nothing else.
#ifndef EBBTIDE_TESTS_PROFILER_CUPTI_TABLE_H_
#define EBBTIDE_TESTS_PROFILER_CUPTI_TABLE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "profiler/cupti_api.h"
#include "tests/cudasim/cupti_record.h"

namespace ebbtide {

const CuptiApi& SimulatedCupti();
// cuptiActivityGetNextRecord of the installed CUPTI, or null where there is
// none. It is of version 13.0.
decltype(CuptiApi::activity_get_next_record) RealNextRecord();

// Streams are in order and run at once beside each other; a call takes the host
// one nanosecond. One at a time, its clock is the simulated CUPTI's.
class ClockDevice {
 public:
  ClockDevice();
  // This thread starts work of `record`'s kind, device, stream and bytes, which
  // takes `nanos`.
  void Start(cudasim::CuptiRecord record, uint64_t nanos);
  void Wait();  // for all of it

 private:
  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> free_at_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PROFILER_CUPTI_TABLE_H_
