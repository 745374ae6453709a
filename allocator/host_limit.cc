#include "allocator/host_limit.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ebbtide {
namespace {

// The share of what is free that stays free: data loaders and Python go on
// growing after the slab was measured out, and pinned pages cannot make room.
constexpr int64_t kKeptFree = 8;

std::optional<std::string> RealRead(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The file's only number; nullopt for "max" or where there is none.
std::optional<int64_t> Number(const HostSystem& system,
                              const std::string& path) {
  const std::optional<std::string> text = system.read(path);
  int64_t number = 0;
  if (!text || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return number;
}

// The number behind `key` in a file of one "key value ..." per line; 0 where
// there is none.
int64_t Number(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t number = 0;
    if (!words.empty() && absl::SimpleAtoi(words[0], &number)) return number;
  }
  return 0;
}

// How the two versions of cgroups name the same things.
struct CgroupNames {
  const char* root;
  const char* limit;
  const char* usage;
  const char* reclaimable;
};
constexpr CgroupNames kVersion1 = {
    "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
    "total_inactive_file "};
constexpr CgroupNames kVersion2 = {"/sys/fs/cgroup", "/memory.max",
                                   "/memory.current", "inactive_file "};

std::optional<int64_t> RoomIn(const HostSystem& system,
                              const CgroupNames& names,
                              const std::string& group) {
  const std::string folder = absl::StrCat(names.root, group);
  const auto limit = Number(system, absl::StrCat(folder, names.limit));
  const auto usage = Number(system, absl::StrCat(folder, names.usage));
  if (!limit || !usage) return std::nullopt;
  const auto stat = system.read(absl::StrCat(folder, "/memory.stat"));
  const int64_t reclaimable =
      stat ? Number(*stat, names.reclaimable) : int64_t{0};
  const int64_t used = std::max<int64_t>(0, *usage - reclaimable);
  return std::max<int64_t>(0, *limit - used);
}

// The least room of a group and of those around it. In a container they may
// not be visible; the container's own then lies at the root.
std::optional<int64_t> RoomAround(const HostSystem& system,
                                  const CgroupNames& names, std::string group) {
  std::optional<int64_t> least;
  for (;;) {
    if (group == "/") group.clear();
    if (const auto room = RoomIn(system, names, group)) {
      least = least ? std::min(*least, *room) : *room;
    }
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

std::optional<int64_t> CgroupRoom(const HostSystem& system) {
  const auto groups = system.read("/proc/self/cgroup");
  if (!groups) return std::nullopt;
  std::optional<int64_t> least;
  for (const absl::string_view line : absl::StrSplit(*groups, '\n')) {
    // number:controllers:path, where version 2 names no controllers.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    std::optional<int64_t> room;
    if (parts[1].empty()) room = RoomAround(system, kVersion2, parts[2]);
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(parts[1], ',');
    if (std::count(controllers.begin(), controllers.end(), "memory") > 0) {
      room = RoomAround(system, kVersion1, parts[2]);
    }
    if (room) least = least ? std::min(*least, *room) : *room;
  }
  return least;
}

int64_t LessKeptFree(int64_t room) { return room - room / kKeptFree; }

}  // namespace

const HostSystem& HostSystem::Real() {
  static constexpr HostSystem kReal = {RealRead};
  return kReal;
}

HostLimit PinnedLimit(std::optional<Bytes> asked, const HostSystem& system) {
  std::optional<HostLimit> least;
  const auto offer = [&least](int64_t bytes, const char* maker) {
    if (!least || Bytes{bytes} < least->bytes) {
      least = HostLimit{Bytes{bytes}, maker};
    }
  };
  if (asked) offer(Count(*asked), "EBBTIDE_HOST_BUDGET");
  if (const auto room = CgroupRoom(system)) {
    offer(LessKeptFree(*room), "the memory cgroup");
  }
  if (const auto text = system.read("/proc/meminfo")) {
    offer(LessKeptFree(Number(*text, "MemAvailable:") << 10), "free RAM");
  } else if (!asked) {
    offer(0, "/proc/meminfo, which cannot be read");
  }
  return *least;
}

}  // namespace ebbtide
