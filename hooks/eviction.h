// Demand eviction: which saved tensor goes when a request does not fit
// (docs/internals/saved-tensors.md).
#ifndef EBBTIDE_HOOKS_EVICTION_H_
#define EBBTIDE_HOOKS_EVICTION_H_

#include <memory>
#include <optional>
#include <vector>

#include "hooks/device.h"
#include "hooks/tape.h"
#include "planner/eviction_order.h"

namespace ebbtide {

struct Victim {
  enum class How { kDrop, kSpill };
  std::shared_ptr<Tape> tape;
  int storage = -1;
  How how = How::kDrop;
};

// Whether dropping our reference would free the storage's bytes, now, and they
// are at least so many.
bool IsEvictable(const TapeStorage& storage, size_t least = LeastManaged());

struct SpillTerms {
  double cost = 0;  // of a copy out and back, in nanoseconds per byte
  Bytes largest{};  // that there is room for
};

// What is asked of the tapes.
struct EvictionQuery {
  Pressure pressure;
  // Position on a tape's clock: the end of what was recorded in forward, the
  // place of the last saved tensor asked for in backward.
  double now = 0;
  // None where nothing can be spilled.
  std::optional<SpillTerms> spill;
  size_t least = LeastManaged();  // of what may go
};

// Feeds `choice` what can go of `tape`, by its index in `victims`, to which
// what may win is added. Returns the largest that was not offered because there
// is no room for it where it would be spilled.
Bytes OfferVictims(const std::shared_ptr<Tape>& tape,
                   const EvictionQuery& query, EvictionChoice* choice,
                   std::vector<Victim>* victims);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_EVICTION_H_
