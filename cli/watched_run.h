// Runs a program for a few training steps, watched and not managed, to learn
// what one of its steps is like.
#ifndef EBBTIDE_CLI_WATCHED_RUN_H_
#define EBBTIDE_CLI_WATCHED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/profile.h"

namespace ebbtide {

struct WatchedRun {
  Profile profile;    // without lanes: an unmanaged run copies nothing
  int64_t steps = 0;  // that were seen whole
  std::string ended;  // how the program ended by itself; empty: it was stopped
};

// Starts `command` in a process group of its own, its standard input empty, its
// standard output on ours for errors, and stops the group (SIGTERM, after five
// seconds SIGKILL) once `steps` steps are over and one of them was like the one
// before. A program that ends by itself before is fine if it got as far as
// that. SIGINT and SIGTERM to us stop it too.
//
// Errors (InvalidArgument, naming the command): it does not start, ends
// without, or goes on for four times as many steps without a repeated one;
// Cancelled: by a signal.
absl::StatusOr<WatchedRun> WatchRun(const std::vector<std::string>& command,
                                    int64_t steps);

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_WATCHED_RUN_H_
