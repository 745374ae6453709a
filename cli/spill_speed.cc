#include "cli/spill_speed.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "allocator/extents.h"
#include "allocator/spill_file.h"

namespace ebbtide {
namespace {

// As large as usual offloads, and enough of them to outlast a disk's fast
// start.
constexpr Bytes kCopy{4 << 20};
constexpr int kCopies = 16;
constexpr size_t kPage = 4096;

// Bytes per nanosecond of kCopies copies.
absl::StatusOr<double> SpeedOf(absl::FunctionRef<absl::Status(int)> copy) {
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kCopies; ++i) {
    if (auto s = copy(i); !s.ok()) return s;
  }
  return kCopies * static_cast<double>(Count(kCopy)) /
         absl::ToDoubleNanoseconds(absl::Now() - begin);
}

}  // namespace

std::string SpillFolder() {
  for (const char* name :
       {"EBBTIDE_OFFLOAD_DIR", "EBBTIDE_SPILL_DIR", "TMPDIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "/tmp";
}

absl::StatusOr<SpillSpeed> MeasureSpillSpeed() {
  SpillSpeed speed = {.folder = SpillFolder()};
  if (speed.folder == "none") {
    return absl::NotFoundError("EBBTIDE_OFFLOAD_DIR is none");
  }
  const auto file = SpillFile::Open(speed.folder, Bytes{-1});
  if (!file.ok()) return file.status();
  speed.file_system = (*file)->file_system();
  speed.is_direct = (*file)->direct();
  std::vector<Extent> extents;
  for (int i = 0; i < kCopies; ++i) {
    auto extent = (*file)->Take(kCopy);
    if (!extent.ok()) return extent.status();
    extents.push_back(*extent);
  }
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(kPage, Count(kCopy)), &std::free);
  // Some file systems compress, or leave zeros out.
  std::minstd_rand random(1);
  auto* words = static_cast<uint32_t*>(memory.get());
  for (size_t i = 0; i < Count(kCopy) / sizeof(uint32_t); ++i) {
    words[i] = random();
  }
  const auto out = SpeedOf(
      [&](int i) { return (*file)->Write(extents[i], memory.get(), kCopy); });
  if (!out.ok()) return out.status();
  const auto back = SpeedOf(
      [&](int i) { return (*file)->Read(extents[i], memory.get(), kCopy); });
  if (!back.ok()) return back.status();
  speed.out = *out;
  speed.back = *back;
  return speed;
}

}  // namespace ebbtide
