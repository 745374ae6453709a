// Runs a program for a few training steps, watched and not managed, to learn
// what one of its steps is like.
#ifndef EBBTIDE_CLI_WATCHED_RUN_H_
#define EBBTIDE_CLI_WATCHED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/profile.h"

namespace ebbtide {

struct WatchedRun {
  Profile profile;    // without lanes: an unmanaged run copies nothing
  int64_t steps = 0;  // that were seen whole
  std::string ended;  // how the program ended by itself; empty: it was stopped
};

struct WatchLimits {
  int64_t steps = 6;
  absl::Duration time = absl::InfiniteDuration();
};

// Starts `command` in a process group of its own, its standard input empty, its
// standard output on ours for errors. Once a step was like the one before, and
// one of the limits is reached, the group is stopped (SIGTERM, after five
// seconds SIGKILL). A program that ends by itself before is fine if it got as
// far as a repeated step. SIGINT and SIGTERM to us stop it too.
//
// Errors (InvalidArgument, naming the command): it does not start, ends without
// a repeated step, or goes on for four times as many steps as the limit without
// one; Cancelled: by a signal.
absl::StatusOr<WatchedRun> WatchRun(const std::vector<std::string>& command,
                                    const WatchLimits& limits);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_WATCHED_RUN_H_
