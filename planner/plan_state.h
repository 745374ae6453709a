// A draft and its exact evaluation, kept up to date while the draft changes: a
// change costs the stages whose recomputation it alters, not the whole graph.
//
// Events. Value v has an event at each stage that uses it or recomputes it, one
// at the loss if it can be kept across it, and one at the stage that ends the
// script's hold. Its bit at an event decides whether it is there until the next
// one. So a changed bit concerns the stage of the next event; recomputation
// that differs there moves events of other values, whose next events are all
// later: one sweep over the concerned stages, in their order, brings everything
// up to date. Bytes follow: a value that stays from one event to another adds
// to the stages between. Private to the planner.
#ifndef EBBTIDE_PLANNER_PLAN_STATE_H_
#define EBBTIDE_PLANNER_PLAN_STATE_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/blocked_peaks.h"
#include "planner/graph.h"
#include "planner/lanes.h"
#include "planner/retention.h"

namespace ebbtide {

struct Event {
  int stage = 0;  // -1: the loss
  char used = 0;  // or only made beside what is used
  char bit = 0;   // 1: it stays until the next event
};
using Events = absl::InlinedVector<Event, 4>;

// First event at stage t or later.
template <class EventList>
auto EventFrom(EventList& events, int t) {
  return std::lower_bound(
      events.begin(), events.end(), t,
      [](const Event& event, int stage) { return event.stage < stage; });
}

// Work before and in one stage.
struct StageWork {
  struct Touch {
    int value = 0;
    char used = 0;
  };
  std::vector<int> rebuilt;    // ops, ascending
  std::vector<Touch> touched;  // values that have an event here
  int64_t rise = 0;            // peak above what is there when it begins
  Time time = 0;               // time of the recomputation
  bool broken = false;  // a needed value can be neither present nor recomputed
};

class PlanState {
 public:
  PlanState(const Graph& graph, int64_t budget);

  // Replaces the draft, up to date. Pinned values are kept whatever it says.
  void Load(Draft draft);

  // Changes. The functions below refer to the draft at the last Update.
  void SetBit(int v, int t, char bit);
  void SetBits(int v, int begin, int end, char bit);  // stages [begin, end)
  void SetRow(int v, const Row& row);
  void SetOffloaded(int v, char bit);
  void AddEarly(int v, int t);
  void RemoveEarly(int v, int t);
  bool changed() const { return !rows_.empty(); }

  // Once between Commits and Reverts.
  void Update();
  // Update in three steps, between any of which changes may be reverted: most
  // changes of a search are rejected by the results of the first steps, and the
  // last takes most of the time if much is recomputed.
  void UpdateTime();   // rebuild_time, rebuilt
  void UpdateHeld();   // least_over
  void UpdatePeaks();  // all else
  // Makes the changes since the last Commit or Revert final, or undoes them.
  void Commit();
  void Revert();
  // Those changes: rows as they were before.
  struct OldRow {
    int value;
    char offloaded;
    Row row;
  };
  const std::vector<OldRow>& changes() const { return rows_; }

  const Draft& draft() const { return draft_; }
  const Events& events(int v) const { return events_[v]; }
  const StageWork& work(int t) const { return work_[t]; }
  int64_t stage_peak(int t) const { return stage_peak_[t]; }
  int HighestStage() const;  // the first of the highest peak

  Time rebuild_time() const { return total_.time; }
  int64_t peak() const;
  int rebuilt() const { return total_.rebuilt; }  // ops, each time counted
  // The k-th of them: its stage and its position in the stage's work.
  std::pair<int, int> FindRebuilt(int k) const;
  bool broken() const { return total_.broken + moves_.broken > 0; }
  // As planner/evaluator.h.
  int64_t host_excess() const;
  // Bytes above the budget: of stages by their weight, of the forward pass like
  // three stages, of the host tier likewise; a broken plan is far above it.
  double over() const;
  // A lower bound on over() after UpdatePeaks.
  double least_over() const;
  // Time that copies make the compute lane wait; of a broken plan 0.
  Time Stall();
  // Before which stage each copy back starts, as of Stall.
  const Lanes& lanes() const { return lanes_; }

  // Multiplies the weight of stages above the budget by `up`, that of all
  // others by `down`; weights stay in [1, most].
  void Reweigh(double up, double down, double most);
  void ResetWeights();

 private:
  static constexpr int kBlock = BlockedPeaks::kBlock;

  // Sums and maxima over a block of stages.
  struct Block {
    Time time = 0;
    bool time_known = false;
    double over = 0;
    int64_t peak = 0;
    int rebuilt = 0;
    int broken = 0;
  };
  // From one event to a later one.
  struct Interval {
    int begin = 0;
    int end = 0;
    bool moved = false;   // on the host until its end
    bool broken = false;  // and recomputed meanwhile, or restored early

    friend bool operator==(const Interval&, const Interval&) = default;
  };
  using Intervals = absl::InlinedVector<Interval, 8>;
  struct Moves {
    int64_t bytes = 0;
    int broken = 0;
  };
  // For a value that is kept across the loss: on the host until its first use,
  // or restored early, which nothing would wait for.
  enum class Away : char { kNo, kMoved, kAskedEarly };
  struct OldEvents {
    int value;
    Away away;
    Events events;
  };
  struct Added {
    bool forward;
    int begin;
    int end;
    int64_t bytes;
  };

  // Changes and their undoing.
  Row& ChangeRow(int v);
  Events& ChangeEvents(int v);
  StageWork& ChangeWork(int t);
  void ForgetChanges();

  // The sweep.
  void SyncRow(const OldRow& old);
  void SyncEarly(int v, const Row& was, const Row& is);
  void Push(int t);
  int Pop();
  void Close(int t);
  void Use(int v, int t, StageWork* work);
  void SortMarked(std::vector<int>* ops);
  void MoveEvents(int t, const StageWork& was, const StageWork& is);
  void InsertEvent(int v, int t, char used);
  void EraseEvent(int v, int t);
  bool IsThere(int v, int t) const;

  // Bytes.
  static Intervals IntervalsOf(const Events& events, Away away);
  static Away AwayOf(char offloaded, const Row& row);
  Away AwayOf(int v) const;
  void MoveIntervals(const OldEvents& old);
  void Hold(int v, const Interval& interval, int sign);
  void Add(const Added& added, int sign);
  void Rise(int t);
  int64_t RiseOfRebuilding(int t, int64_t* there);
  void SumTimes();
  void SumBytes();
  void SumStages(int block);
  void CountWork(int t, int sign);

  const Graph& graph_;
  const int64_t budget_;
  Lanes lanes_;
  Draft draft_;
  std::vector<Events> events_;                      // by value
  std::vector<StageWork> work_;                     // by stage
  std::vector<absl::InlinedVector<int, 2>> early_;  // values by stage
  BlockedPeaks forward_peak_;                       // by op
  BlockedPeaks stage_peak_;                         // by stage
  std::vector<Time> rebuild_time_;                  // by stage
  std::vector<double> weight_;                      // by stage
  std::vector<Block> blocks_;                       // blocks of stages
  Block total_;                                     // sum over stages
  int64_t forward_most_ = 0;
  int64_t tail_ = 0;
  Moves moves_;

  std::vector<int64_t> base_forward_;  // peaks with nothing kept or recomputed
  std::vector<int64_t> base_stage_;    // bytes that are there anyway
  std::vector<int> by_release_;        // movable values

  // Since the last Commit or Revert.
  std::vector<OldRow> rows_;
  std::vector<OldEvents> old_events_;
  std::vector<std::pair<int, StageWork>> old_work_;  // the first works_ of them
  size_t works_ = 0;
  std::vector<Added> added_;
  std::vector<std::pair<int, int64_t>> old_rises_;
  Moves old_moves_;

  // Scratch, all zero or empty between calls.
  std::vector<char> row_changed_;     // by value
  std::vector<char> events_changed_;  // by value
  std::vector<char> queued_;          // by stage
  std::vector<int> queue_;            // a heap of stages
  std::vector<char> rise_stale_;      // by stage
  std::vector<int> stale_;            // those stages
  std::vector<char> mark_;            // by value
  std::vector<int> marked_;           // those values
  std::vector<char> op_mark_;         // by op
  std::vector<char> there_;           // by value, within a stage
  std::vector<char> stays_;           // by value, after it
  std::vector<int> last_read_;
  std::vector<int> missing_;  // ops whose inputs are to be looked at
  std::vector<Transfer> moved_;
  std::vector<int64_t> forward_flat_;
  std::vector<int64_t> stage_flat_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_PLAN_STATE_H_
