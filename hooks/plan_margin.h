// The part of a budget that a plan leaves free. Pure functions; thread-safe.
#ifndef EBBTIDE_HOOKS_PLAN_MARGIN_H_
#define EBBTIDE_HOOKS_PLAN_MARGIN_H_

#include <optional>

#include "planner/units.h"

namespace ebbtide {

struct MarginFacts {
  Bytes budget{};
  // Reserved bytes that nothing alive uses and no other request can have;
  // nullopt where the device does not say (Device::WasteBeside).
  std::optional<Bytes> beside;
  // Bytes reserved at most in the last step beyond its live bytes.
  Bytes of_step{};
  // Bytes that planned addresses and what lies beside them take beyond the live
  // bytes of the last step, which they served; nullopt where they did not.
  std::optional<Bytes> of_layout;
  int tightened = 0;  // plans that were short of memory in a row
};

// At least 1 % or 1 MiB for what the first plan's times and bytes miss; once a
// layout was measured, what it takes, and kMappedMargin or a part in
// kMappedPart: the next plan's layout takes more or less by that. Each plan
// that was short of memory leaves twice as much more as the one before it, from
// a 128th of the budget on, and no plan more than half.
inline constexpr Bytes kMappedMargin{2 << 20};
inline constexpr int kMappedPart = 512;
Bytes MarginFor(const MarginFacts& facts);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PLAN_MARGIN_H_
