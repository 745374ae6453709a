// Device work of a step, as CUPTI records it.
#ifndef EBBTIDE_HOOKS_STEP_WORK_H_
#define EBBTIDE_HOOKS_STEP_WORK_H_

#include <cstdint>

namespace ebbtide {

// In nanoseconds of the device: sums over its streams, except `busy`, the time
// that it did anything.
struct StepWork {
  int64_t step = 0;          // number in the run
  int64_t attributed = 0;    // to ops and backward ops
  int64_t own = 0;           // ebbtide's own: copies, recomputation,
                             // comparisons
  int64_t unattributed = 0;  // the rest of the program's
  int64_t busy = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_STEP_WORK_H_
