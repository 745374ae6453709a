// Replays an allocation trace on a policy, several times over.
#ifndef EBBTIDE_ALLOCATOR_REPLAY_REPLAY_H_
#define EBBTIDE_ALLOCATOR_REPLAY_REPLAY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "allocator/replay/policy.h"
#include "planner/buffer_trace.h"
#include "planner/units.h"

namespace ebbtide {

struct ReplayStep {
  Bytes reserved{};          // at its end; it never shrinks
  int64_t driver_calls = 0;  // within it
};

struct Replayed {
  std::vector<ReplayStep> steps;
  std::vector<Bytes> addresses;  // by buffer, in the last step
};

// At one instant buffers are freed before others are allocated, both in the
// trace's order. InvalidArgument for what only a plan can have: several clocks,
// gaps, alignments and fixed offsets.
absl::StatusOr<Replayed> Replay(const BufferTrace& trace, int steps,
                                ReplayPolicy* policy);

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_REPLAY_REPLAY_H_
