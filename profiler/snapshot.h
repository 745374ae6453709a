// A trace as a memory snapshot of PyTorch: a pickle that memory_viz and tools
// for its format open.
#ifndef EBBTIDE_PROFILER_SNAPSHOT_H_
#define EBBTIDE_PROFILER_SNAPSHOT_H_

#include <ostream>

#include "absl/status/status.h"
#include "profiler/trace_visitor.h"

namespace ebbtide {

// Plain containers in protocol 4, which the viewer's own reader takes.
//
// device_traces[0] has the blocks of the device, and what is alive beside them
// as blocks of the category "unknown"; without an event of that category the
// viewer fails. It has no word for bytes on the host or on disk: those are
// blocks named so in device_traces[1]. The sums of what is allocated and freed
// up to the last event of an instant are the trace's live bytes there, but for
// rests below 0, which two threads at once can leave for a moment.
//
// A block's category is its last one: the viewer has one for each. Addresses
// are ours, and no two blocks share one. Events have `time_us`, as PyTorch's
// have, since the epoch, and `nanos`, the trace's own clock.
//
// Reads the source twice. Errors: those of the source; `out` is for the caller
// to look at. InvalidArgument: a trace of version 1 has no blocks.
absl::Status WriteSnapshot(const TraceSource& source, std::ostream& out);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_SNAPSHOT_H_
