// Selects the parts of a trace for its page, before the page is made.
#ifndef EBBTIDE_PROFILER_TIMELINE_SURVEY_H_
#define EBBTIDE_PROFILER_TIMELINE_SURVEY_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "profiler/timeline.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

struct TimelineSurvey {
  int64_t begin = 0;  // first and last instant of anything
  int64_t end = 0;
  int64_t events = 0;
  int64_t steps = 0;
  Bytes peak{};  // peak of the curve
  int64_t peak_time = 0;
  int64_t peak_event = 0;
  // Events to be shown one by one: those of the steps around the peak.
  int64_t detail_begin = 0;
  int64_t detail_end = 0;
  int64_t detail_begin_time = 0;
  int64_t detail_end_time = 0;
  absl::flat_hash_set<int64_t> blocks;  // to be listed
};

// Reads the source twice.
absl::StatusOr<TimelineSurvey> SurveyTimeline(const TraceSource& source,
                                              const TimelineOptions& options);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_SURVEY_H_
