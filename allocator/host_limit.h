// How much host memory may be pinned. Pinned pages can neither be swapped nor
// reclaimed, so what is taken here is taken from everything else that runs.
#ifndef EBBTIDE_ALLOCATOR_HOST_LIMIT_H_
#define EBBTIDE_ALLOCATOR_HOST_LIMIT_H_

#include <sys/resource.h>

#include <optional>
#include <string>

#include "planner/units.h"

namespace ebbtide {

// The seam to the system; tests put their own files there.
struct HostSystem {
  // The text of a file of /proc or /sys; nullopt if it cannot be read.
  std::optional<std::string> (*read)(const std::string& path);
  int (*getrlimit)(int resource, rlimit* limit);
  static const HostSystem& Real();
};

struct HostLimitOptions {
  std::optional<Bytes> asked;  // EBBTIDE_HOST_BUDGET
  // Whether RLIMIT_MEMLOCK counts. NVIDIA's driver for Linux pins pages without
  // charging them to it, and the usual limit is 8 MiB, so only where
  // registrations were seen to fail at it.
  bool memlock_binds = false;
};

// What can be pinned, and what sets that limit, in words ("the cgroup", ...).
struct HostLimit {
  Bytes bytes{};
  std::string maker;
};

// The least of: what was asked for; what every memory cgroup around the process
// leaves, and what is available in RAM, both less an eighth that stays for the
// program's own growth (page cache that can go counts as left); and what
// RLIMIT_MEMLOCK leaves where it binds, which it never does for a process with
// CAP_IPC_LOCK. What cannot be read sets no limit, except that without
// /proc/meminfo only what was asked for is granted, or nothing.
HostLimit PinnedLimit(const HostLimitOptions& options,
                      const HostSystem& system = HostSystem::Real());

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_HOST_LIMIT_H_
