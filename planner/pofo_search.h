// The search behind planner/pofo.h: labels over the values that a chain's plan
// keeps or moves. Private to the planner.
//
// A plan is a path of items over the stages' outputs. From item x[p], alone or
// in a saved set, an arc leads to x[k], made by running stages p to k - 1, or
// to the saved set of stage k - 1, whose input is dropped; the values that the
// arc passes are recomputed by the unpinned program (planner/segment_cells.h).
// Every item stays on the device or goes to the host and comes back. Read
// backward in time, the lane that restores items is one that offloads them, so
// both are counted in the same way.
#ifndef EBBTIDE_PLANNER_POFO_SEARCH_H_
#define EBBTIDE_PLANNER_POFO_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/chain_rows.h"
#include "planner/chain_slots.h"
#include "planner/segment_cells.h"
#include "planner/units.h"

namespace ebbtide {

using SegmentTable = ChainRows<double, SegmentCells>;

// Slots, and slots per unit of the table's time.
struct PofoLimits {
  // Bytes leave and come while they are copied, as in the paper, and not whole
  // items when a copy ends or starts.
  bool continuous = false;
  int64_t room = 0;
  int64_t host = std::numeric_limits<int64_t>::max();
  double d2h = 0;
  double h2d = 0;
};

struct PofoLabel {
  int node = 0;            // its item is x[node], or the saved set around it
  int way = -1;            // way of the saved set; negative: x alone
  bool offloaded = false;  // the item
  int64_t size = 0;        // size of the item
  int64_t kept = 0;        // sum of the items before it
  int64_t host = 0;        // taken by all items so far
  double leaving = 0;      // still to be copied out, without the item
  double due = 0;          // earlier items: to be back when y[node] is there
  Time cost = 0;           // cost of the stages before the node, forward and
                           // backward
  Time estimate = 0;       // estimate of the whole plan, nearly never too much
  int64_t latest = 0;      // size of the item that went to the host last
  int parent = -1;
};

// A plan's last segment, which nothing is saved in before the loss but by the
// unpinned program.
struct PofoEnd {
  int label = 0;
  Time estimate = 0;  // estimate of the whole plan
};

// How a segment is run: slots for the table, and the time with its stalls.
struct PofoSegment {
  int64_t slots = -1;  // negative: not at all
  Time time = std::numeric_limits<Time>::infinity();
};

class PofoSearch {
 public:
  // At most so many labels of a node go on, the best ones by their estimates.
  PofoSearch(const SlotChain& chain, const SegmentTable& table,
             const PofoLimits& limits, size_t most_labels);

  const std::vector<PofoLabel>& labels() const { return labels_; }
  const std::vector<PofoEnd>& ends() const { return ends_; }
  // A lower bound on any plan's time, as far as the unpinned program is exact.
  Time bound() const { return bound_; }

  // The backward of an arc from the label's item to the cell's last stage.
  PofoSegment Inner(const PofoLabel& label, const ChainCell& cell) const {
    return Inner(label, Sums(label, false, label.due), cell);
  }
  // From the label's item to the loss and back.
  PofoSegment Last(const PofoLabel& label) const;

 private:
  struct Lane;

  void MakeBounds();
  Time BoundFrom(const PofoLabel& label) const;
  std::vector<int64_t> Sums(const PofoLabel& label, bool with_item,
                            double most) const;
  PofoSegment Inner(const PofoLabel& label, const std::vector<int64_t>& due,
                    const ChainCell& cell) const;
  PofoSegment LastWith(const PofoLabel& label, int64_t stays,
                       int64_t there) const;
  void Thin(std::vector<int>* labels) const;
  bool IsBeaten(const PofoLabel& label, const std::vector<int>& by) const;
  void Expand(int index);
  bool Wait(int64_t room, int64_t least, Lane* lane) const;
  void Run(Time time, Lane* lane) const;
  void AddChildren(int index, int node, int way, int64_t size, const Lane& lane,
                   Time inner);
  void AddLabels(PofoLabel label);
  void AddEnd(int index);

  const SlotChain& c_;
  const SegmentTable& table_;
  const PofoLimits limits_;
  const size_t most_labels_;
  const int64_t grain_;
  std::vector<std::vector<Time>> bounds_;  // by node and slots
  std::vector<PofoLabel> labels_;
  std::vector<std::vector<int>> at_;  // labels by node
  std::vector<PofoEnd> ends_;
  Time bound_ = 0;
  Time best_ = std::numeric_limits<Time>::infinity();  // best time among the
                                                       // ends
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_POFO_SEARCH_H_
