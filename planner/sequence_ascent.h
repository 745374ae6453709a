// The bound over a sequence of instants, and the ascent of its prices, for any
// number of instants.
//
// Instants cut the rest of the step into windows, each from one instant to the
// next and the last one to the end; an op recomputed in one is not recomputed
// in another, so that costs add up. Each window is a closure problem of its own
// (planner/window_cut.h), and neighbours meet in one kind of row: a value kept
// at an instant was kept at the one before or recomputed between them. Every
// such row has a price, its coupling: the earlier window is paid for having the
// value, the later one pays for keeping it. For any prices that are not
// negative the cuts, less prices times room, are a lower bound on the overhead
// of every plan. Private to the planner.
//
// Memory has several rows: bytes, and values counted in whole multiples of a
// size (Chvatal and Gomory's rounding), which is what binds where there is room
// for a few large values and a part of one more. With offload the rows are of
// bytes, each of the values for which the lanes had some time or less
// (planner/host_room.h).
//
// On this project's model: a value is had in a window without a price if it is
// made later, if the script holds it at the window's instant, or if the stage
// of that instant needs it; ops may be recomputed wherever some plan could
// (Graph::may_replay). With offload `kept` means on the device or on the host
// and used again from there: a value on the host at an instant was on the
// device or the host at the one before, or recomputed between them, so the rows
// hold, and the bytes that the lanes can have copied by each instant are extra
// room there. The overhead has a part before all instants and one per window:
// those of the windows pay for the recomputation of the cuts, and each gives a
// lane time at an instant or does not.
#ifndef EBBTIDE_PLANNER_SEQUENCE_ASCENT_H_
#define EBBTIDE_PLANNER_SEQUENCE_ASCENT_H_

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "planner/graph.h"
#include "planner/host_room.h"
#include "planner/window_cut.h"

namespace ebbtide {

// A decision of the branch and bound: value v is kept at an instant, or not.
struct KeepDecision {
  int instant = 0;
  int value = 0;
  bool keep = false;
};

struct SequencePrices {
  // By window and row of memory; rows that are missing are free.
  std::vector<std::vector<double>> memory;
  // By window and value: of being kept at its instant. None for the first.
  std::vector<std::vector<double>> coupling;
};

struct SequenceAscent {
  Time bound = 0;
  SequencePrices prices;  // that gave it
  // The decision that the bound wavers about most; value -1: none is open.
  KeepDecision branch{.value = -1};
};

// The sequence with a further instant, in its order; empty if it is, or if
// there is one between the same two stages.
std::vector<int> WithInstant(const Graph& graph, const std::vector<int>& before,
                             int instant);
// Prices of a sequence with one instant more that give no less.
SequencePrices PricesFor(const SequencePrices& prices,
                         const std::vector<int>& before,
                         const std::vector<int>& after);

class SequenceProblem {
 public:
  // Ascending instants after the forward pass: stages, and reruns, at most one
  // between two stages; sequences with reruns hold for plans that offload
  // nothing.
  SequenceProblem(const Graph& graph, int64_t budget, const HostRooms& host,
                  const std::vector<int>& instants);

  const std::vector<int>& instants() const { return instants_; }

  // Takes `decisions` instead of those before. False if no plan follows them.
  bool Decide(const std::vector<KeepDecision>& decisions);

  // `steps` steps, one cut per window each, up from `ascent`, whose bound holds
  // for these decisions too. Ends early at `upper`, the overhead of some plan,
  // and where `stop`, asked before each step, says so.
  void Ascend(int steps, Time upper, const std::function<bool()>& stop,
              SequenceAscent* ascent);

 private:
  // The kept bytes of some values are at most `room` and the bytes that the
  // lanes can have copied of them, in units of `size` bytes: counts in whole
  // units have a room of whole units.
  struct Row {
    int64_t size = 1;
    HostRoom host;
    std::vector<std::pair<int, int64_t>> counts;  // by value: units
    int64_t room = 0;  // on the device, for undecided values
  };
  struct Window {
    explicit Window(WindowCut cut) : cut(std::move(cut)) {}
    WindowCut cut;
    int64_t room = 0;  // bytes on the device, as of a row
    std::vector<Row> rows;
    std::vector<int> coupled;  // values whose row with the one before is priced
    std::vector<double> surcharge;  // by value, in the last bound
    std::vector<double> kept;       // by value: how often in the last steps
  };
  struct Step {  // the smoothed direction
    SequencePrices prices;
    double norm = 0;
  };

  int windows() const { return static_cast<int>(windows_.size()); }
  bool DropOversize();
  void AddSizeRows(Window* window);
  void AddHostRows(const HostRooms& host, int instant, Window* window);
  void FindRooms();
  void FindCoupled();
  SequencePrices Fit(SequencePrices prices) const;
  Time Lower(const SequencePrices& prices);
  double Excess(int window, const Row& row, Time bound) const;
  void Direct(const SequencePrices& prices, Time bound, double old, Step* step);
  void Go(double length, const Step& step, SequencePrices* prices) const;
  void NoteKept();
  KeepDecision Branch() const;

  const Graph& graph_;
  const int64_t budget_;
  const std::vector<int> instants_;
  bool moves_ = false;
  int part_ = 0;  // part of the overhead that helped most in the last bound
  std::deque<Window> windows_;
  std::vector<double> weight_;  // by value, in steps
  double kept_weight_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SEQUENCE_ASCENT_H_
