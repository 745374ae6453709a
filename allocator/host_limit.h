// The limit on pinned host memory. Pinned pages can neither be swapped nor
// reclaimed, so everything else that runs has less.
#ifndef EBBTIDE_ALLOCATOR_HOST_LIMIT_H_
#define EBBTIDE_ALLOCATOR_HOST_LIMIT_H_

#include <optional>
#include <string>

#include "planner/units.h"

namespace ebbtide {

// The seam to the system; tests put their own files there.
struct HostSystem {
  // The text of a file of /proc or /sys; nullopt if it cannot be read.
  std::optional<std::string> (*read)(const std::string& path);
  static const HostSystem& Real();
};

// Bytes that can be pinned, and the name of what limits them ("the cgroup",
// ...).
struct HostLimit {
  Bytes bytes{};
  std::string maker;
};

// The least of: what was `asked` for (EBBTIDE_HOST_BUDGET); and what every
// memory cgroup around the process leaves, and what is available in RAM, both
// less an eighth that stays for the program's own growth (page cache that can
// go counts as left). An unreadable value sets no limit, except that without
// /proc/meminfo only what was asked for is granted, or nothing. RLIMIT_MEMLOCK
// does not count: NVIDIA's driver for Linux pins pages without charging them to
// it, and it is usually 8 MiB.
HostLimit PinnedLimit(std::optional<Bytes> asked,
                      const HostSystem& system = HostSystem::Real());

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_HOST_LIMIT_H_
