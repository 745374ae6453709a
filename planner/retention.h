// Graph plans as retention bits, and their exact cost and curve of live bytes.
//
// A plan is a bit W(v, t) for every value v and every stage t, and one for the
// loss: after stage t (at the loss) v stays on the device until its next use,
// if it is there. What a stage needs and is not there is rebuilt before it:
// the ops of the missing closure, in their order, intermediate values leaving
// after their last use unless their bit holds them. Any set of intervals that
// end and begin at uses can be written like this; a value that is rebuilt
// earlier, while its inputs happen to be there, cannot. Private to the planner.
#ifndef EBBTIDE_PLANNER_RETENTION_H_
#define EBBTIDE_PLANNER_RETENTION_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"

namespace ebbtide {

// Stage -1 is the loss. One bit each: a graph of 10,000 values and stages takes
// 13 MB.
class Retention {
 public:
  Retention(int values, int stages)
      : words_((stages + 64) / 64),
        bits_(static_cast<size_t>(values) * words_, 0) {}

  char Get(int v, int t) const { return Word(v, t) >> ((t + 1) % 64) & 1; }
  void Set(int v, int t, char bit) {
    const uint64_t mask = uint64_t{1} << ((t + 1) % 64);
    uint64_t& word = bits_[Index(v, t)];
    word = bit ? word | mask : word & ~mask;
  }
  void SetRow(int v, char bit) {
    std::fill_n(bits_.begin() + Index(v, -1), words_,
                bit ? ~uint64_t{0} : uint64_t{0});
  }

 private:
  size_t Index(int v, int t) const {
    return static_cast<size_t>(v) * words_ + (t + 1) / 64;
  }
  uint64_t Word(int v, int t) const { return bits_[Index(v, t)]; }

  int words_;  // of one value
  std::vector<uint64_t> bits_;
};

// A plan as the solvers see it.
struct Draft {
  Retention bits;
  std::vector<char> offloaded;  // of values; empty: offload is not allowed
};

// Keeps every value that can be kept and offloads none.
Draft KeepAll(const Graph& graph, bool offload);

// How far a run has come, from 0 to 1; 1 ends it.
using Progress = std::function<double()>;

// What a plan does and takes; reused between evaluations.
struct Evaluation {
  // Ops run again before stage t: rebuilt[rebuilt_begin[t] ..
  // rebuilt_begin[t + 1]), and values that are used or made there, likewise.
  std::vector<int> rebuilt_begin;
  std::vector<int> rebuilt;
  std::vector<int> touched_begin;
  std::vector<int> touched;
  std::vector<int> moved;      // values that are offloaded, in that order
  std::vector<int> first_use;  // of each value: its stage, or stages: never
  std::vector<int> last_use;   // of each value: its stage, or -1: never
  std::vector<int64_t> forward_peak;  // of each op
  std::vector<int64_t> stage_peak;    // of each stage, rebuilding included
  Time overhead = 0;                  // time of all rebuilding
  int64_t peak = 0;                   // of both passes and the tail
  // Something was needed that can be neither there nor rebuilt, or an op was
  // run again with an output on the host.
  bool broken = false;
};

// Bytes by which the plan exceeds the room of the host tier, if that has a
// limit: all that is offloaded is there at the loss.
int64_t HostExcess(const Graph& graph, const Evaluation& evaluation);

class Evaluator {
 public:
  explicit Evaluator(const Graph& graph);

  // `offloaded` (may be empty) marks values that W keeps across the loss and
  // that are on the host from their release to their first use: their bytes
  // count in neither place between. O(stages + rebuilt ops and their values).
  void Evaluate(const Retention& retention, const std::vector<char>& offloaded,
                Evaluation* result);

  // The same plan as actions. restore_before[t] lists the offloaded values
  // whose restore starts before stage t (before the rebuilding); each must be
  // listed once, no later than its first use.
  std::vector<Action> Actions(
      const Retention& retention, const std::vector<char>& offloaded,
      const std::vector<std::vector<int>>& restore_before, Evaluation* result);

  int64_t evaluations() const { return evaluations_; }

 private:
  void Follow(const Retention& retention, Evaluation* result);
  void FollowStage(const Retention& retention, int t, Evaluation* result);
  void Close(int t, Evaluation* result);
  void Add(int v, int t, Evaluation* result);
  template <class Sink>
  void Measure(const Retention& retention, const std::vector<char>& offloaded,
               Evaluation* result, Sink& sink);
  template <class Sink>
  void MeasureForward(const Retention& retention,
                      const std::vector<char>& offloaded, Evaluation* result,
                      Sink& sink);
  template <class Sink>
  void MeasureStage(const Retention& retention, int t, Evaluation* result,
                    Sink& sink);
  template <class Sink>
  void Rebuild(const Retention& retention, int t, Evaluation* result,
               Sink& sink);
  template <class Sink>
  void Drop(int v, Sink& sink);
  bool Kept(const Retention& retention, const Evaluation& result, int v) const;
  bool Stays(const Retention& retention, const Evaluation& result, int v,
             int t) const;

  const Graph& graph_;
  int64_t evaluations_ = 0;
  std::vector<char> live_;       // first pass: there at this point
  std::vector<char> marked_;     // values in the stage's `touched`
  std::vector<char> op_marked_;  // ops in the stage's `rebuilt`
  std::vector<int> queue_;
  std::vector<char> resident_;  // second pass: away, counted or on the host
  std::vector<int> made_;       // by the op that is run again
  std::vector<int> last_read_;  // within the stage, an index of `rebuilt`
  std::vector<std::vector<int>> arrivals_;  // offloaded values by first use
  int64_t current_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_RETENTION_H_
