// Runs a program for a few training steps: watched and not managed, to learn
// what its largest step is like, or within a budget, to see that it holds.
#ifndef EBBTIDE_CLI_WATCHED_RUN_H_
#define EBBTIDE_CLI_WATCHED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/profile.h"
#include "planner/units.h"

namespace ebbtide {

struct WatchedRun {
  // The largest step seen, without lanes: an unmanaged run copies nothing.
  Profile profile;
  int64_t steps = 0;  // that were seen whole
  std::string ended;  // how the program ended by itself; empty: it was stopped
};

struct WatchLimits {
  int64_t steps = 24;
  absl::Duration time = absl::InfiniteDuration();
};

// Starts `command` in a process group of its own, its standard input empty, its
// standard output on ours for errors. Once there is a profile of a step, and
// one of the limits is reached, the group is stopped (SIGTERM, after five
// seconds SIGKILL). A program that ends by itself before is fine if it got as
// far as a second step. SIGINT and SIGTERM to us stop it too.
//
// Errors (InvalidArgument, naming the command): it does not start, ends without
// a second step, or goes on for four times as many steps as the limit without a
// profile; Cancelled: by a signal.
absl::StatusOr<WatchedRun> WatchRun(const std::vector<std::string>& command,
                                    const WatchLimits& limits);

struct CheckedRun {
  int64_t steps = 0;
  int64_t over = 0;  // steps above the budget
  Bytes peak{};
};

// CheckRun runs `command` as WatchRun does, within `budget`, and counts the
// steps above it. FailedPrecondition where the program leaves no report behind.
absl::StatusOr<CheckedRun> CheckRun(const std::vector<std::string>& command,
                                    Bytes budget, const WatchLimits& limits);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_WATCHED_RUN_H_
