// A recorded step as the planner sees it: forward ops, the values they produce,
// and the backward ops (stages) that need those values again.
//
// Instants. Forward op i is instant i; with F forward ops, stage t is instant F
// + t. The time after the last stage (the optimizer) is `tail`.
//
// Bytes. A value is one storage in its final form: views and in-place results
// are part of the value whose storage they share, and the ops that make them
// are part of its recipe. The bytes of saved values are counted by the planner;
// everything else that was alive at an instant (parameters, gradients as they
// accumulate, optimizer state, workspace, what the script holds) is that
// instant's `other`. Live bytes under a plan at an instant are therefore
//     other + bytes of the planner's values that the plan has resident.
// A value that autograd does not save dies by itself at `released`; until then
// its bytes are inside `other`, afterwards (if a plan recomputes it in
// backward) they are counted.
#ifndef EBBTIDE_PLANNER_PROFILE_H_
#define EBBTIDE_PLANNER_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/time_spread.h"
#include "planner/units.h"

namespace ebbtide {

struct Value {
  std::string name;  // producing op and shape, for people
  Bytes bytes{};
  int op = 0;  // the forward op that produces it
  // Autograd packs it: it stays resident unless a plan frees it, and is counted
  // from `op` on.
  bool saved = false;
  // A plan may keep it across the loss. False for values that no pack shows.
  // Means something for saved values only: others die at `released`.
  bool retainable = false;
  // A plan may offload it.
  bool movable = false;
  // First instant at whose end only autograd holds it; at least `op` and the
  // last forward op that reads it, at most ops + stages (held past the last
  // stage). A plan may free it after that instant, not before.
  int released = 0;
};

struct Op {
  std::string name;
  std::vector<int> inputs;   // values read; leaves and constants are not values
  std::vector<int> outputs;  // values produced
  Time time = 0;             // least time of the op
  TimeSpread spread;
  Time host_time = 0;  // time that a host that queues work takes to issue it
  // Peak of everything that is not a saved value while it runs in forward,
  // including its workspace and its unsaved outputs.
  Bytes other{};
  // Peak beyond inputs and outputs when it is recomputed.
  Bytes scratch{};
  // Recomputing it from the same inputs gives the same bytes (verified).
  bool replayable = false;
};

struct Stage {
  std::string name;
  std::vector<int> needs;  // values unpacked, in that order
  Time time = 0;           // as an op's
  TimeSpread spread;
  Time host_time = 0;  // as an op's
  Bytes before{};      // other bytes when it begins; what recomputes add to
  Bytes during{};      // peak of other bytes while it runs; at least `before`
};

// Device, clock and date with which a profile was measured, for messages; empty
// if unknown.
struct Origin {
  std::string device;    // as its maker names it
  double megahertz = 0;  // its clock rate, as the system reports it; 0: unknown
  std::string versions;  // versions of ebbtide and of the layers below the job
  std::string clock;     // that times are of
  std::string date;      // UTC, as 2026-01-31T23:59:59Z
  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Profile {
  Origin origin;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Stage> stages;
  Bytes tail{};      // peak outside forward and backward, saved values excluded
  Time tail_time{};  // the rest of the step, for ratios
  // Bytes per unit of time of each lane, measured with compute running. 0: no
  // such lane, nothing can be offloaded.
  double d2h = 0;
  double h2d = 0;
  // Room of the host tier; negative: no limit.
  Bytes host{-1};
};

// Ok if indices are in range, ops are in topological order (an op reads only
// values of earlier ops that are not released yet), each value is an output of
// exactly its op, sizes and times are finite and not negative, sums do not
// overflow, during >= before, released >= op. The message names the place
// ("values[3].bytes").
absl::Status CheckProfile(const Profile& profile);

// Text form: {"kind":"profile","version":1,...}; reads what it writes, bit for
// bit. Spreads, host times and the profile's origin may be missing. `origin`
// names the file in errors.
std::string ProfileToJson(const Profile& profile);
absl::StatusOr<Profile> ProfileFromJson(absl::string_view text,
                                        absl::string_view origin);

// Most live bytes of a step that keeps every saved value until its last need.
Bytes UnmanagedPeak(const Profile& profile);
// Sum of times of all ops and stages: the step without any overhead, on a
// device that never waits for the host.
Time BaseTime(const Profile& profile);
// The same with a host that issues them one by one.
Time UnmanagedTime(const Profile& profile);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PROFILE_H_
