// Fuzzes allocation traces, as text and as snapshots, with libFuzzer: what is
// accepted has a placement that the validator accepts and that is no lower than
// the bound.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "planner/buffer_trace.h"
#include "planner/place.h"
#include "planner/place_validate.h"
#include "planner/snapshot_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto trace = ebbtide::IsPickle(text)
                         ? ebbtide::BufferTraceFromSnapshot(text, "fuzz")
                         : ebbtide::BufferTraceFromCsv(text, "fuzz");
  if (!trace.ok()) return 0;
  const auto placed = ebbtide::Place(trace->problem, {.nodes = 1000});
  // Only fixed offsets that overlap are seen this late.
  if (!placed.ok()) return 0;
  const auto& placement = placed->placement;
  if (!ebbtide::ValidatePlacement(trace->problem, placement).ok() ||
      placement.height < placed->least || placed->least < placed->bound.bytes) {
    std::abort();
  }
  return 0;
}
