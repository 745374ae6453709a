// Demand eviction: which saved tensor goes when a request does not fit
// (design: section 5).
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

// Whether dropping our reference would free the storage's bytes, now.
bool IsEvictable(const TapeStorage& storage);

// Feeds `choice` what can go of `tape` under that pressure, by its index in
// `victims`, to which what may win is added. `now` is the position on the
// tape's clock: the end of what was recorded in forward, the place of the last
// saved tensor asked for in backward. `spill_cost`: a copy to the spill file
// and back, in nanoseconds per byte; none where nothing can be spilled.
void OfferVictims(const std::shared_ptr<Tape>& tape, const Pressure& pressure,
                  double now, std::optional<double> spill_cost,
                  EvictionChoice* choice, std::vector<Victim>* victims);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_EVICTION_H_
