// Training steps that follow one another as a cycle of ops, with items that may
// leave the device between two of their uses: weights, their gradients, the
// optimizer's state, and values that a chain's plan keeps. The model of weight
// offloading (Beaumont, Eyraud-Dubois, Shilova, Zhao: "Weight Offloading
// Strategies for Training Large DNN Models", hal-03580767): forward and
// backward of a stage read its weight, and the last backward of a weight
// updates it. Private to the planner.
//
// The host's content of an item is that of the last write. So an item that was
// copied out since may be released in any later gap without another copy: a
// weight that is offloaded between forward and backward was copied after the
// backward of the step before.
#ifndef EBBTIDE_PLANNER_CYCLE_H_
#define EBBTIDE_PLANNER_CYCLE_H_

#include <vector>

#include "planner/chain.h"
#include "planner/chain_actions.h"
#include "planner/chain_plan.h"
#include "planner/units.h"

namespace ebbtide {

struct CycleOp {
  Time time = 0;
  Bytes bytes{};   // alive while it runs, beside the items
  Bytes before{};  // alive before it runs, beside the items
};

struct CycleUse {
  int op = 0;
  bool writes = false;
};

struct CycleItem {
  ChainAction::Item what = ChainAction::Item::kX;
  int index = 0;  // stage of the value, or index of the weight
  Bytes bytes{};
  std::vector<CycleUse> uses;  // ops ascend
  // From each step to the next, written by its last use alone. Else the first
  // use makes it, and it is gone after the last one.
  bool lasts = false;
};

// The update of a weight, which the host may do: the gradient goes there, the
// state is there for good, and the weight comes back from there.
struct CycleUpdate {
  int op = 0;
  int weight = 0;  // item
  int grad = -1;   // item; -1: it has no bytes
  int state = -1;
  int gap = 0;      // gap of the weight, behind the update
  Time device = 0;  // added to the op, where the device does it
  Time host = -1;   // negative: the host cannot
};

// Between two uses of an item, one behind the other.
struct CycleGap {
  int item = 0;
  int after = 0;   // op
  int before = 0;  // op; counted on from the number of ops in the next step
  int copy = 0;    // the one that must have left
};

// To the host, of what the op has written.
struct CycleCopy {
  int item = 0;
  int writer = 0;  // op
};

struct Cycle {
  std::vector<CycleOp> ops;
  std::vector<CycleItem> items;
  std::vector<CycleUpdate> updates;
  double d2h = 0;  // bytes per unit of time
  double h2d = 0;
  Bytes host{-1};  // for items that ever leave; negative: no limit
  std::vector<CycleGap> gaps;
  std::vector<CycleCopy> copies;

  int Ops() const { return static_cast<int>(ops.size()); }
};

// The gaps in which an item is offloaded, and the time of its return. If the
// host does an update the weight is offloaded behind it, and the state in no
// gap.
struct CyclePlan {
  std::vector<char> away;     // by gap
  std::vector<int> back;      // by gap: before this op, counted as its `before`
  std::vector<char> on_host;  // by update
};

// Nothing is offloaded.
CyclePlan StayingPlan(const Cycle& cycle);

// Ops from `op` on until the gap's item is needed.
int WaitFrom(const Cycle& cycle, int gap, int op);

// By op, gaps whose items come back before it, in the order of need.
std::vector<std::vector<int>> ReturnsByOp(const Cycle& cycle,
                                          const CyclePlan& plan);

// Least live bytes at each op: without items that are offloaded there.
std::vector<Bytes> LeastLive(const Cycle& cycle, const CyclePlan& plan);

// The cycle of a chain's plan, of which `actions` are those that compute. With
// `values_move` the values that are kept across the loss, but for x[0], are
// items, too. `chain` must be valid.
Cycle CycleOf(const Chain& chain, const ChainActions& actions,
              bool values_move);

// The cycle of the plan that keeps every value.
Cycle KeptCycle(const Chain& chain);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_CYCLE_H_
