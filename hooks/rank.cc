#include "hooks/rank.h"

#include <sys/resource.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

// A torch without torch.distributed has not got it.
namespace c10d {
__attribute__((weak)) c10::intrusive_ptr<ProcessGroup> resolve_process_group(
    const std::string& group_name);
}  // namespace c10d

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

std::optional<int> NumberIn(const char* variable) {
  const char* text = std::getenv(variable);
  int number = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

// torch.distributed numbers its groups; the first one is the default. A rank
// that was found stays valid after the group has been destroyed.
std::optional<int> RankInDefaultGroup() {
  static std::atomic<int> known = -1;
  if (known >= 0) return known;
  if (&c10d::resolve_process_group == nullptr) return std::nullopt;
  try {
    const auto group = c10d::resolve_process_group("0");
    if (group == nullptr || group->getSize() < 2) return std::nullopt;
    return known = group->getRank();
  } catch (const std::exception&) {  // there is none
    return std::nullopt;
  }
}

}  // namespace

std::optional<int> RankOfProcess() {
  const std::optional<int> rank = NumberIn("RANK");
  const std::optional<int> world = NumberIn("WORLD_SIZE");
  if (rank && world) return *world > 1 ? rank : std::nullopt;
  return RankInDefaultGroup();
}

std::string FileOfRank(const std::string& path, std::optional<int> rank) {
  std::error_code error;
  const fs::path file = path;
  if (!rank || path.empty() ||
      (fs::exists(file, error) && !fs::is_regular_file(file, error))) {
    return path;
  }
  fs::path ranked = file;
  ranked.replace_extension(
      absl::StrCat("rank", *rank, file.extension().string()));
  return ranked.string();
}

int64_t FaultsOfChildren() {
  rusage of_children = {};
  getrusage(RUSAGE_CHILDREN, &of_children);
  return of_children.ru_minflt;
}

bool HasProcessesBeside(bool is_below, int64_t faults_before) {
  return is_below || FaultsOfChildren() > faults_before;
}

}  // namespace ebbtide
