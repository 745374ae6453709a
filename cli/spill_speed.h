// Measures the copies of evicted bytes to the offload folder and back.
#ifndef EBBTIDE_CLI_SPILL_SPEED_H_
#define EBBTIDE_CLI_SPILL_SPEED_H_

#include <string>

#include "absl/status/statusor.h"

namespace ebbtide {

struct SpillSpeed {
  std::string folder;
  double out = 0;  // bytes per nanosecond, nothing else running
  double back = 0;
  std::string file_system;  // as SpillFile::file_system
  bool is_direct = false;   // O_DIRECT held
};

// The folder that a run would use by default: EBBTIDE_OFFLOAD_DIR, else
// $TMPDIR, else /tmp.
std::string SpillFolder();

// Copies 64 MiB out and back in that folder. Errors: as SpillFile::Open
// (allocator/spill_file.h), or the copies'; NotFound if EBBTIDE_OFFLOAD_DIR is
// none.
absl::StatusOr<SpillSpeed> MeasureSpillSpeed();

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_SPILL_SPEED_H_
