// Allocation traces from PyTorch's memory snapshots, as
// torch.cuda.memory._dump_snapshot writes them while the history is recorded.
#ifndef EBBTIDE_PLANNER_SNAPSHOT_TRACE_H_
#define EBBTIDE_PLANNER_SNAPSHOT_TRACE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/buffer_trace.h"

namespace ebbtide {

// True if a file begins as a pickle does, and no text.
bool IsPickle(absl::string_view text);

// Instants are the entries of device_traces, from 1 on, in the order of the
// host, whatever the stream; 0 is before the history and the last one is the
// snapshot. A buffer has the size that was asked for and lives from `alloc` to
// `free_completed`. Its id is the entry's number, or for a buffer from before
// the history its address; such a buffer lives from 0 on. A buffer active in
// the snapshot and freed last in the history is there at the snapshot only.
//
// InvalidArgument, naming `name`, the place and what was expected; also where
// nothing or more than one device was recorded.
absl::StatusOr<BufferTrace> BufferTraceFromSnapshot(absl::string_view text,
                                                    absl::string_view name);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_SNAPSHOT_TRACE_H_
