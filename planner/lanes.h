// Schedules copies: the waiting that a set of offloaded values costs, and the
// stages before which their restores start. Private to the planner.
#ifndef EBBTIDE_PLANNER_LANES_H_
#define EBBTIDE_PLANNER_LANES_H_

#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "planner/evaluator.h"
#include "planner/graph.h"

namespace ebbtide {

// The effects of a plan without its copies, and the values that it copies.
// Peaks do not count offloaded values while they are on the host.
struct Traffic {
  absl::Span<const int64_t> forward_peak;  // by op
  absl::Span<const int64_t> stage_peak;    // by stage, as the next
  absl::Span<const Time> rebuild_time;
  Time overhead = 0;                 // their sum
  absl::Span<const Transfer> moved;  // in the order of their release
};
Traffic TrafficOf(const Evaluation& evaluation);

// Offloads start at the value's release, in that order. Restores start in the
// order of first use, as late as hides them behind compute (a backward sweep
// of the H2D lane), later where the budget leaves no room, and before the
// first use at the latest. The clock is the simulator's.
class Lanes {
 public:
  Lanes(const Graph& graph, int64_t budget);

  // Time that the compute lane waits.
  Time Stall(const Traffic& traffic);
  // After Stall: values whose restore starts before each stage.
  const std::vector<std::vector<int>>& restore_before() const {
    return restore_before_;
  }

 private:
  struct Copy {
    Time end;
    int64_t bytes;
  };

  void Forward(const Traffic& traffic);
  void Queue(const Traffic& traffic);
  void Backward(const Traffic& traffic);
  void WaitFor(int64_t live);
  bool Fits(const Transfer& move, int t, const Traffic& traffic) const;
  void Restore(const Transfer& move, int t);
  Time StageTime(int t, const Traffic& traffic) const;

  const Graph& graph_;
  const int64_t budget_;
  const Profile& profile_;
  Time clock_ = 0;
  Time d2h_ = 0;
  Time h2d_ = 0;
  int64_t leaving_bytes_ = 0;
  std::deque<Copy> leaving_;
  std::vector<Transfer> queue_;  // in order of first use
  std::vector<int> wanted_;      // stage before which each would best start
  std::vector<Time> off_end_;    // by value: end of the offload
  std::vector<Time> back_end_;   // by value: end of the restore
  std::vector<int64_t> early_;   // by stage: bytes restored before their use
  std::vector<Time> start_;      // by stage, without waiting
  std::vector<std::vector<int>> restore_before_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_LANES_H_
