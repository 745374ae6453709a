// Recomputation and offload together on a chain: POFO (Beaumont, Eyraud-Dubois,
// Shilova: "Efficient combination of rematerialization and offloading for
// training DNNs", NeurIPS 2021), with whole tensors, any number of ways to save
// a stage and dropped values recomputed by the unpinned program. Private to the
// planner.
//
// Copies out are asked for before the loss, copies in behind it, each lane in
// order. A value is copied out as soon as it is made, and its bytes leave when
// that has ended and its forward readers are done; they are taken again when
// the copy back starts.
#ifndef EBBTIDE_PLANNER_POFO_H_
#define EBBTIDE_PLANNER_POFO_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/chain_slots.h"
#include "planner/pofo_search.h"
#include "planner/units.h"

namespace ebbtide {

struct PofoEffort {
  size_t labels = 500;  // labels of each stage
  size_t plans = 400;   // that are simulated
};

struct PofoSolution {
  std::vector<ChainAction> actions;  // none where no plan was found
  Time time = 0;                     // the simulator's; infinity without a plan
  // No plan is faster, as far as the unpinned program is exact and but for
  // slots.
  Time bound = 0;
};

// The table of a chain, for plans within any budget. Where the chain has no
// lanes they are the unpinned program's.
class Pofo {
 public:
  // At most so many slots for EnoughFor(chain). Plans need sizes rounded up.
  Pofo(const Chain& chain, int64_t slots, Rounding rounding, int threads);

  // The best plan found; it has passed SimulateChain.
  PofoSolution Solve(Bytes budget, const PofoEffort& effort = {}) const;
  // The search's estimate of the best plan; infinity if it finds none.
  // `continuous`: in the paper's model, where bytes leave and come while they
  // are copied, which no plan of whole values reaches.
  Time Estimate(Bytes budget, bool continuous = false) const;
  // The least budget that some effort finds a plan for, up to a thousandth of
  // it; no more than `feasible`, for which there is one.
  Bytes LeastBudget(Bytes feasible) const;
  // True if no size was rounded.
  bool IsExact() const { return ebbtide::IsExact(chain_, slots_); }

 private:
  PofoLimits Limits(Bytes budget) const;

  const Chain& chain_;
  const SlotChain slots_;
  const SegmentTable table_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_POFO_H_
