// The event simulator of graph plans, with four lanes (host, compute, D2H,
// H2D), whole-tensor frees and the memory model of planner/profile.h.
//
// Actions are issued in order on the compute lane's clock.
// - forward, backward, recompute: start when the clock, the restores of what
//   they read, the memory and the host allow, which issues them one by one from
//   time 0 on and waits for nothing; the clock moves to their end.
// - free: at the clock, takes no time.
// - offload: the copy starts when the clock, the lane and a restore of the same
//   value allow; the bytes leave at its end. Copies of a lane are in order.
// - restore: the bytes are taken at the clock; the copy starts when the clock,
//   the lane and the offload of the same value allow. Host room is given back
//   at its end.
// - An action that takes bytes waits, as long as the budget is exceeded, for
//   the next end of a running offload. Where none is running the plan fails.
#ifndef EBBTIDE_PLANNER_SIMULATE_H_
#define EBBTIDE_PLANNER_SIMULATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

struct Simulation {
  Time time = 0;     // the clock after the last action
  Time stall = 0;    // part of it that the compute lane waited for copies
  Time starved = 0;  // part of it that the compute lane waited for the host
  Bytes peak{};
  int peak_instant = 0;
  // The first action during which it is reached; their number: in the tail.
  int peak_action = 0;
  // Most live bytes at each instant (planner/profile.h; recomputes and
  // restores belong to the stage they precede), then those of the tail.
  std::vector<Bytes> curve;
  // By offload, in the order of the actions: the instant by which its bytes
  // have left; that of the tail where they are there to the end.
  std::vector<int> departures;
};

// ResourceExhausted where the plan exceeds `budget`, InvalidArgument where it
// does what cannot be done; both name the action. `profile` must be valid.
// `departures`: of another simulation of the same actions; bytes that are
// copied earlier leave then, unless an action waits for them. Empty: at once.
absl::StatusOr<Simulation> Simulate(const Profile& profile,
                                    absl::Span<const Action> actions,
                                    Bytes budget,
                                    absl::Span<const int> departures = {});

// The values whose bytes are part of Simulation::peak when it is first reached,
// in their order. Those on their way to the host count as long as they have not
// left; one that is on its way back as well counts twice and is named once.
// Errors: as Simulate.
absl::StatusOr<std::vector<int>> PeakHolders(const Profile& profile,
                                             absl::Span<const Action> actions,
                                             Bytes budget);

// "op 12 aten::mm", "stage 3 MmBackward0" or "tail".
std::string InstantName(const Profile& profile, int instant);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SIMULATE_H_
