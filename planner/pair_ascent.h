// The bound over a pair of instants, and the ascent of its prices
// (planner-research 2, section 3).
//
// Two instants cut the rest of the step into two windows, from the first
// instant to the second and from there to the end; what is rebuilt in one is
// not rebuilt in the other, so that costs add up. Each window is a closure
// problem of its own (planner/window_cut.h), and they meet in one kind of row:
// what is kept at the second instant was kept at the first or rebuilt between
// them. Every such row has a price as well, its coupling: the first window is
// paid for having the value, the second pays for keeping it. For any prices
// that are not negative the two cuts, less prices times room, are a lower bound
// on the overhead of every plan. Private to the planner.
//
// On this project's model: a value is had in the first window without a price
// where it is made later, where the script holds it at the first instant, or
// where the stage of that instant needs it; ops may be run again wherever some
// plan could (Graph::may_replay). With offload `kept` means on the device or on
// the host and used again from there: a value on the host at the second instant
// was on the device or the host at the first, or rebuilt between them, so the
// rows hold, and the bytes that the lanes can have moved by each instant are
// extra room there (planner/host_room.h). The overhead has three parts, before,
// between and after the instants: those between and after pay for what the cuts
// rebuild, and each gives a lane time at an instant or does not.
#ifndef EBBTIDE_PLANNER_PAIR_ASCENT_H_
#define EBBTIDE_PLANNER_PAIR_ASCENT_H_

#include <functional>
#include <vector>

#include "planner/graph.h"
#include "planner/host_room.h"
#include "planner/window_cut.h"

namespace ebbtide {

// A decision of the branch and bound: value v is kept at the first (0) or the
// second (1) instant, or not.
struct PairDecision {
  int window = 0;
  int value = 0;
  bool keep = false;
};

struct PairPrices {
  double per_byte[2] = {0, 0};
  std::vector<double> coupling;  // of values
};

struct PairAscent {
  Time bound = 0;
  PairPrices prices;  // that gave it
  // The decision that the bound wavers about most; value -1: none is open.
  PairDecision branch{.value = -1};
};

class PairProblem {
 public:
  // The second instant is a stage after the first instant, or a rerun between
  // the stage that is the first instant and the next one; such pairs hold for
  // plans that move nothing.
  PairProblem(const Graph& graph, int64_t budget, const HostRooms& host,
              int first, int second);

  // Takes `decisions` instead of those before. False if no plan follows them.
  bool Decide(const std::vector<PairDecision>& decisions);

  // `steps` steps, one pair of cuts each, up from `ascent`, whose bound holds
  // for these decisions too. Ends early at `upper`, the overhead of some plan,
  // and where `stop`, asked before each step, says so.
  void Ascend(int steps, Time upper, const std::function<bool()>& stop,
              PairAscent* ascent);

 private:
  struct Step {  // the smoothed direction
    double per_byte[2] = {0, 0};
    std::vector<double> coupling;
    double norm = 0;
  };

  bool DropOversize();
  void FindCoupled();
  Time Lower(const PairPrices& prices);
  double Excess(int window, Time bound) const;
  void Direct(const PairPrices& prices, Time bound, bool first, Step* step);
  void NoteKept();
  PairDecision Branch() const;

  const Graph& graph_;
  const int64_t budget_;
  std::vector<HostRoom> host_[2];
  bool moves_ = false;
  int part_ = 0;      // of the overhead, that helped most in the last bound
  WindowCut second_;  // before first_, which must know its values
  WindowCut first_;
  WindowCut* window_[2] = {&first_, &second_};
  int64_t room_[2] = {0, 0};
  std::vector<int> coupled_;    // values whose row has a price
  std::vector<double> weight_;  // of values, in steps
  // How often each value was kept in the last steps, by window.
  std::vector<double> kept_[2];
  double kept_weight_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PAIR_ASCENT_H_
