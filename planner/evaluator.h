// The exact cost of a graph plan and its curve of live bytes, from nothing:
// every stage is walked. planner/plan_state.h keeps the same up to date under
// changes. Private to the planner.
#ifndef EBBTIDE_PLANNER_EVALUATOR_H_
#define EBBTIDE_PLANNER_EVALUATOR_H_

#include <cstdint>
#include <vector>

#include "planner/graph.h"
#include "planner/plan.h"
#include "planner/retention.h"

namespace ebbtide {

// A value on its way to the host and back: there from its release to its first
// use.
struct Transfer {
  int value = 0;
  int first_use = 0;  // a stage

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// Effects of a plan; reused between evaluations.
struct Evaluation {
  // Ops recomputed before stage t, and values that are used or made there:
  // [begin[t], begin[t + 1]) of each list.
  std::vector<int> rebuilt_begin;
  std::vector<int> rebuilt;
  std::vector<int> touched_begin;
  std::vector<int> touched;
  std::vector<Transfer> moved;        // in the order of their release
  std::vector<int> first_use;         // by value: its stage, or stages: never
  std::vector<int> last_use;          // by value: its stage, or -1: never
  std::vector<int64_t> forward_peak;  // by op
  std::vector<int64_t> stage_peak;    // by stage, recomputation included
  std::vector<Time> rebuild_time;     // by stage
  Time overhead = 0;                  // time of all recomputation
  int64_t peak = 0;                   // peak of both passes and the tail
  // A needed value can be neither present nor recomputed, an op was recomputed
  // with an output on the host, or an offloaded value is restored early, which
  // nothing would wait for. Also set if millions of ops are recomputed: such
  // plans are not followed to their end.
  bool broken = false;
};

// Bytes by which the plan exceeds the room of the host tier, if that has a
// limit: all that is offloaded is there at the loss.
int64_t HostExcess(const Graph& graph, const Evaluation& evaluation);

class Evaluator {
 public:
  explicit Evaluator(const Graph& graph);

  // draft.offloaded marks values that W keeps across the loss and that are on
  // the host from their release to their first use: their bytes count in
  // neither place between. O(values + stages + recomputed ops and their
  // values).
  void Evaluate(const Draft& draft, Evaluation* result);

  // Returns the plan as actions. restore_before[t] lists the offloaded values
  // whose restore starts before stage t (before the recomputation); each must
  // be listed once, no later than its first use.
  std::vector<Action> Actions(
      const Draft& draft, const std::vector<std::vector<int>>& restore_before,
      Evaluation* result);

 private:
  void Follow(const Retention& retention, Evaluation* result);
  void FollowStage(const Retention& retention, int t, Evaluation* result);
  void Close(int t, Evaluation* result);
  void Add(int v, int t, Evaluation* result);
  template <class Sink>
  void Measure(const Draft& draft, Evaluation* result, Sink& sink);
  template <class Sink>
  void MeasureForward(const Draft& draft, Evaluation* result, Sink& sink);
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
  std::vector<std::vector<int>>
      early_;                    // values by stage (planner/retention.h)
  std::vector<char> live_;       // first pass: there at this point
  std::vector<char> marked_;     // values in the stage's `touched`
  std::vector<char> op_marked_;  // ops in the stage's `rebuilt`
  std::vector<int> queue_;
  std::vector<char> resident_;  // second pass: absent, counted or on the host
  std::vector<int> last_read_;  // by op within the stage, an index of `rebuilt`
  std::vector<std::vector<int>> arrivals_;  // offloaded values by first use
  int64_t current_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_EVALUATOR_H_
