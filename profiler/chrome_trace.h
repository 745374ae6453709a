// A trace in the JSON format that chrome://tracing and Perfetto open
// ("Trace Event Format").
#ifndef EBBTIDE_PROFILER_CHROME_TRACE_H_
#define EBBTIDE_PROFILER_CHROME_TRACE_H_

#include <ostream>

#include "absl/status/status.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

// A row per kind of span, and more where spans of one kind overlap without one
// lying in the other, which viewers do not draw; counters for live bytes by
// cause, for what lies in other tiers and for the budget; an instant for each
// eviction; an arrow from each copy out to the copies back of the same value.
// Times are microseconds since the trace began, with three decimals: nothing is
// rounded. A counter with more than `points` events has those of ThinnedCurve.
// Reads the source twice. Errors: those of the source; `out` is for the caller
// to look at.
absl::Status WriteChromeTrace(const TraceSource& source, std::ostream& out,
                              int points = 250'000);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CHROME_TRACE_H_
