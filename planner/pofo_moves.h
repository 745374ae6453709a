// Places the copies out and back of a chain's plan. Private to the planner.
#ifndef EBBTIDE_PLANNER_POFO_MOVES_H_
#define EBBTIDE_PLANNER_POFO_MOVES_H_

#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_actions.h"
#include "planner/units.h"

namespace ebbtide {

// A value that is made once, before the loss, and copied out at once; it stays
// for who reads it before the loss.
struct PofoMove {
  int stage = 0;  // x[stage] or the saved set around it
  ChainAction::Item item = ChainAction::Item::kX;
  int maker = 0;  // position of the forward that makes it; -1 for x[0]
};

// Adds frees and moves to `actions`, which only compute. Each value comes back
// in the order of need, as early as it fits from then on: behind the loss, if
// the budget allows.
ChainActions PlaceMoves(const Chain& chain, const ChainActions& actions,
                        absl::Span<const PofoMove> moves, Bytes budget);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_POFO_MOVES_H_
