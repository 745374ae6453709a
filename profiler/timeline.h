// A trace reduced to what fits on one page: a curve and lanes of bounded length
// with every peak kept, totals, and what was done to the values of each op.
#ifndef EBBTIDE_PROFILER_TIMELINE_H_
#define EBBTIDE_PROFILER_TIMELINE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/units.h"
#include "profiler/kind.h"
#include "profiler/trace.h"

namespace ebbtide {

// Spans of one kind; close ones are drawn as one.
struct LaneSpan {
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;   // of the longest
  int64_t count = 0;  // spans it stands for
  Bytes bytes{};      // of all
};

// What happened under one name. A name is an op or a value that it produced.
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
  Bytes peak{};
  int64_t peak_time = 0;
  std::vector<CurveSample> curve;
  std::array<std::vector<LaneSpan>, kSpanKinds> lanes;
  std::vector<StepRecord> steps;
  std::vector<BudgetChange> budgets;
  std::vector<TraceText> notes;  // of TextKind::kNote
  OpRow total;
  // Names that were evicted, recomputed, copied or waited for: most evicted
  // bytes first, then most time.
  std::vector<OpRow> rows;
  std::string run;  // the text of TextKind::kRun, or empty
  bool complete = false;
  int64_t dropped_records = 0;
  std::string damage;
};

// `resolution` is the number of intervals a curve or lane is divided into;
// three samples of each remain: the first, the highest and the last.
Timeline MakeTimeline(const Trace& trace, int resolution = 4000);

// One JSON object; times in nanoseconds since `begin`. Valid UTF-8 whatever the
// names hold, and safe inside a <script> element.
std::string TimelineToJson(const Timeline& timeline);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_H_
