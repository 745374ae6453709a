// Demand eviction: which saved tensor goes when a request does not fit
// (design: section 5).
#ifndef EBBTIDE_HOOKS_EVICTION_H_
#define EBBTIDE_HOOKS_EVICTION_H_

#include <memory>
#include <optional>

#include "hooks/tape.h"

namespace ebbtide {

struct Victim {
  enum class How { kDrop, kSpill };
  Tape* tape = nullptr;
  std::shared_ptr<Tape> owner;  // of `tape`, where the caller has it
  int storage = -1;
  How how = How::kDrop;
  double score = 0;  // bytes x time to next use / cost
};

// Whether dropping our reference would free the storage's bytes, now.
bool IsEvictable(const TapeStorage& storage);

// The best victim of `tape`, or nullopt where nothing can go. `now` is the
// position on the tape's clock: the end of what was recorded in forward, the
// place of the last saved tensor asked for in backward. `spill_cost`: a copy to
// the spill file and back, in nanoseconds per byte; none where nothing can be
// spilled.
std::optional<Victim> ChooseVictim(Tape* tape, double now,
                                   std::optional<double> spill_cost);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_EVICTION_H_
