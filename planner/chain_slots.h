// A chain whose sizes are counted in slots of some bytes, the input of the
// chain solvers' tables. Sizes rounded up give plans that hold their budget,
// sizes rounded down give times that no plan of the same kind beats.
#ifndef EBBTIDE_PLANNER_CHAIN_SLOTS_H_
#define EBBTIDE_PLANNER_CHAIN_SLOTS_H_

#include <cstdint>
#include <vector>

#include "planner/chain.h"
#include "planner/units.h"

namespace ebbtide {

enum class Rounding { kUp, kDown };

// A way to run a stage with its saved set kept.
struct SlotWay {
  Time fw = 0;
  Time bw = 0;
  int64_t keeps = 0;
  int64_t ft = 0;
  int64_t bt = 0;
};

struct SlotChain {
  int stages = 0;
  int64_t unit = 1;   // bytes of a slot
  int64_t slots = 0;  // slots of the largest budget, beside x[0]
  int64_t input = 0;  // bytes of x[0]
  Rounding rounding = Rounding::kUp;
  std::vector<int64_t> x;   // L + 2, the last is 0: what follows the loss
  std::vector<int64_t> ft;  // L
  std::vector<std::vector<SlotWay>> ways;  // L + 1; the loss has one
  // Times are counted in this unit; 1 unless they are all whole numbers of it
  // and every sum that a plan can have is exact in 31 bits.
  Time quantum = 1;
  bool small_times = false;
  std::vector<Time> walked;  // L + 1: forward time of stages 0..i-1

  // Slots beside x[0] within `budget`; negative where it does not hold x[0].
  int64_t SlotsOf(Bytes budget) const;
  // Bytes charged before a segment that ends with stage l begins: y[l+1], and
  // the saved set of stage l in its way f - 1, if f is not 0.
  int64_t Held(int l, int f) const {
    return x[l + 1] + (f > 0 ? ways[l][f - 1].keeps : 0);
  }
  // To run the backward of stage i, saved in `way`, with nothing else alive.
  int64_t Backward(int i, const SlotWay& way) const {
    return x[i] + x[i + 1] + way.keeps + way.bt;
  }
};

// At most `limit` slots for budgets up to `most`; where sizes have a common
// divisor that allows it, a slot is that, and nothing is rounded.
SlotChain CountSlots(const Chain& chain, Bytes most, int64_t limit,
                     Rounding rounding);

// True if no size of `chain` was rounded.
bool IsExact(const Chain& chain, const SlotChain& slots);

// A budget that any plan fits into which saves each stage once.
Bytes EnoughFor(const Chain& chain);

// Slots of one byte, for programs over sizes instead of times.
SlotChain CountBytes(const Chain& chain);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CHAIN_SLOTS_H_
