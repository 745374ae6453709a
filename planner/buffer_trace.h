// Allocation traces: which buffers a program had, from text.
#ifndef EBBTIDE_PLANNER_BUFFER_TRACE_H_
#define EBBTIDE_PLANNER_BUFFER_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/place_problem.h"

namespace ebbtide {

struct BufferTrace {
  PlaceProblem problem;          // valid
  std::vector<std::string> ids;  // by buffer, no two alike
  std::vector<int> streams;      // by buffer, that it was allocated on; from 0
};

// Either of two forms, known by the first line:
// - Columns id,lower,upper,size in any order, then any of alignment, gaps and
//   offset: a buffer in [lower, upper). Gaps are `from-to`, separated by
//   blanks; no gap, offset or alignment is an empty field. With several streams
//   an instant is a number for each, separated by `;`.
// - The log of RAPIDS' memory manager, Thread,Time,Action,Pointer,Size,Stream:
//   instants are the log's lines from 0 on, ids those of the allocations' lines
//   in the file, and what is never freed lives to the end. Instants are in the
//   order of the host, whatever the stream. Failed allocations are left out.
// InvalidArgument, naming `name`, the line and what was expected.
absl::StatusOr<BufferTrace> BufferTraceFromCsv(absl::string_view text,
                                               absl::string_view name);

// "id,offset" and a line for each buffer.
std::string PlacementToCsv(const BufferTrace& trace,
                           absl::Span<const Bytes> offsets);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BUFFER_TRACE_H_
