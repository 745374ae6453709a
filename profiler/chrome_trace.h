// A trace in the JSON format that chrome://tracing and Perfetto open
// ("Trace Event Format").
#ifndef EBBTIDE_PROFILER_CHROME_TRACE_H_
#define EBBTIDE_PROFILER_CHROME_TRACE_H_

#include <string>

#include "profiler/trace.h"

namespace ebbtide {

// One row per kind of span, counters for live bytes and budget, an instant for
// each eviction. Times are microseconds since the trace began, with three
// decimals: nothing is rounded.
std::string ToChromeTrace(const Trace& trace);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CHROME_TRACE_H_
