// Demand eviction: which saved tensor goes when a request does not fit.
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

// True if dropping ebbtide's reference frees the storage's bytes now and there
// are at least `least` of them.
bool IsEvictable(const TapeStorage& storage, size_t least = LeastManaged());

struct SpillTerms {
  double cost = 0;  // cost of a copy out and back, in nanoseconds per byte
  Bytes largest{};  // largest storage that the tier has room for
};

// Parameters of a search for storages to evict.
struct EvictionQuery {
  Pressure pressure;
  // Position on a tape's clock: the end of what was recorded in forward, the
  // place of the last saved tensor asked for in backward.
  double now = 0;
  // nullopt if nothing can be offloaded.
  std::optional<SpillTerms> spill;
  size_t least = LeastManaged();  // least bytes of a storage that may be
                                  // evicted
};

// Offers to `choice` the evictable storages of `tape`, by their index in
// `victims`, to which candidates are added. Returns the size of the largest
// that was not offered because the tier has no room for it.
Bytes OfferVictims(const std::shared_ptr<Tape>& tape,
                   const EvictionQuery& query, EvictionChoice* choice,
                   std::vector<Victim>* victims);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_EVICTION_H_
