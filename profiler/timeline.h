// A trace reduced to what fits on one page: a curve, lanes and a list of blocks
// of bounded length, totals, and what was done to the values of each op. The
// memory it takes does not depend on the length of the run.
//
// Events are the changes of live bytes, numbered from 0: they are the page's
// second axis. Only whole events are left out, so every point of the curve is
// exact, and so is the list of live blocks there.
#ifndef EBBTIDE_PROFILER_TIMELINE_H_
#define EBBTIDE_PROFILER_TIMELINE_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/units.h"
#include "profiler/thinned_curve.h"
#include "profiler/trace.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

// A block, from event to event; `end` is the number of all events for one that
// is alive at the end.
struct TimelineBlock {
  int64_t number = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t begin_time = 0;
  int64_t end_time = 0;
  Bytes bytes{};
  // From which event on it is of which cause; the first is `begin`.
  std::vector<std::pair<int64_t, int>> causes;
  int name = -1;                 // the op that made it
  int shape = -1;                // shape of the tensor that autograd saved
  int layer = -1;                // the module, or the parameter
  std::vector<int> unpacked_by;  // backward ops, the first few
  int64_t value = kNoBlock;      // the block whose content it has again
  // Its value was evicted at that event, -1: never; came back at, -1: not.
  int64_t evicted = -1;
  int64_t returned = -1;
  Eviction::How how = Eviction::How::kDrop;
  bool planned = false;
};

// Spans of one kind; close ones are drawn as one.
struct LaneSpan {
  int64_t begin = 0;
  int64_t end = 0;
  int name = 0;              // name of the longest
  int64_t count = 0;         // spans it stands for
  Bytes bytes{};             // bytes of all
  int64_t value = kNoBlock;  // value of the longest
};

// Events under one name. A name is an op or a value that it produced.
struct OpRow {
  std::string name;
  int64_t drops = 0;
  Bytes dropped{};
  int64_t spills = 0;
  Bytes spilled{};
  std::array<int64_t, kSpanKinds> count{};
  std::array<int64_t, kSpanKinds> nanos{};
  std::array<Bytes, kSpanKinds> bytes{};
};

struct Timeline {
  int64_t begin = 0;  // first and last instant of anything
  int64_t end = 0;
  int64_t events = 0;
  Bytes peak{};  // peak of the steps, or of the curve if that is higher
  // Where the curve is highest.
  int64_t peak_time = 0;
  int64_t peak_event = 0;
  // Every event in here is a point of the curve, and every block is listed.
  int64_t detail_begin = 0;
  int64_t detail_end = 0;
  std::vector<std::string> names;
  std::vector<TimelinePoint> curve;
  std::vector<TimelineBlock> blocks;  // by number
  std::vector<TierSample> tiers;
  std::array<std::vector<LaneSpan>, kSpanKinds> lanes;  // by begin
  std::vector<StepRecord> steps;  // some of them where there are very many
  int64_t whole_steps = 0;        // number of all whole steps
  std::vector<TraceGap> gaps;     // steps of which only times and peaks are
                                  // recorded
  int64_t steps_nanos = 0;        // that those took
  std::vector<BudgetChange> budgets;
  std::vector<int64_t> plans;    // when another plan came into force
  std::vector<TraceText> notes;  // texts of TextKind::kNote
  OpRow total;
  // Names that were evicted, recomputed, copied or waited for: most evicted
  // bytes first, then most time.
  std::vector<OpRow> rows;
  std::string run;             // the last text of TextKind::kRun, or empty
  std::string profile;         // last text of kProfile
  std::string plan;            // last text of kPlan
  int64_t recorded_until = 0;  // Trace::detail_end
  bool complete = false;
  int64_t dropped_records = 0;
  std::string damage;
};

struct TimelineOptions {
  int points = 120'000;  // points of the curve outside the detail
  int detail = 60'000;   // events around the peak, if its steps have as many
  int blocks = 60'000;   // outside the detail: those that cover most of the
                         // picture, bytes times time
  int intervals = 8000;  // spans of a lane: closer ones are drawn as one
  int steps = 10'000;
};

// Reads the source three times. Errors: those of the source.
absl::StatusOr<Timeline> MakeTimeline(const TraceSource& source,
                                      const TimelineOptions& options = {});

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_H_
