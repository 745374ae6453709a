// Sizes and budgets as people write them.
//
// A size is a number and a unit in upper or lower case: B, KiB, MiB, GiB, TiB,
// KB, MB, GB, TB, and K, M, G, T for powers of 1024, as Docker and Slurm have
// them; a whole number alone is bytes. "1.5GiB" is fine; parts of a byte are
// rounded down. A budget is a size, a share of the device ("80%"), "auto", or
// one of these per device: "cuda:0=8GiB,cpu=16GiB". In a budget a number below
// 2^20 needs a unit: "160" is more often meant as MiB or GiB.
#ifndef EBBTIDE_PLANNER_SIZE_H_
#define EBBTIDE_PLANNER_SIZE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/units.h"

namespace ebbtide {

// Errors say what was expected: unknown unit, zero, negative, above 2^60.
absl::StatusOr<Bytes> ParseSize(absl::string_view text);

// One of the three forms; `kind` says which member counts.
struct Amount {
  enum class Kind { kBytes, kShare, kAuto };
  Kind kind = Kind::kAuto;
  Bytes bytes{};
  double share = 0;  // in (0, 1]

  friend bool operator==(const Amount&, const Amount&) = default;
};

struct DeviceBudget {
  std::string device;  // "cpu", "cuda", "cuda:0"; "" for the one in use
  Amount amount;

  friend bool operator==(const DeviceBudget&, const DeviceBudget&) = default;
};

// At least one entry; each device at most once; an entry without a device
// stands alone.
absl::StatusOr<std::vector<DeviceBudget>> ParseBudget(absl::string_view text);

// The amount for the CUDA device of that index: by its own name, or else for
// all; nullptr: none.
const Amount* AmountForCuda(const std::vector<DeviceBudget>& budgets,
                            int index);

// The bytes that `amount` means on a device that has `total`, of which `free`
// are unused. "auto" leaves a tenth of those to other processes.
Bytes Resolve(const Amount& amount, Bytes total, Bytes free);

// "1.50 GiB", "12 B": for people, not for reading back.
std::string FormatSize(Bytes bytes);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SIZE_H_
