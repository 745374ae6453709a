// Everything that happened in a run: the data of a trace file, and its reader.
// (Written by profiler/trace_writer.h.)
//
// All times are nanoseconds of the writer's steady clock.
#ifndef EBBTIDE_PROFILER_TRACE_H_
#define EBBTIDE_PROFILER_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/units.h"
#include "profiler/kind.h"

namespace ebbtide {

// One point of the allocation curve: live bytes from `time` on.
struct CurveSample {
  int64_t time = 0;
  BytesByKind live{};
  bool operator==(const CurveSample&) const = default;
};

enum class SpanKind : uint8_t {
  kForward,    // an op of the program, in its forward pass
  kBackward,   // a backward op (stage)
  kRecompute,  // an op run again by ebbtide
  kOffload,    // a copy to a slower tier
  kRestore,    // a copy back
  kStall,      // the program waited for ebbtide
};
inline constexpr int kSpanKinds = 6;
const char* SpanKindName(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kForward;
  int name = 0;  // index of Trace::names: the op or value
  int64_t begin = 0;
  int64_t end = 0;
  Bytes bytes{};  // of a copy or a rematerialized value, else 0
  bool operator==(const Span&) const = default;
};

// One forward/backward pair. `end` is 0, and the peak too, if the trace stops
// inside it.
struct StepRecord {
  int64_t index = 0;
  int64_t begin = 0;
  int64_t end = 0;
  Bytes peak{};
  bool operator==(const StepRecord&) const = default;
};

struct BudgetChange {
  int64_t time = 0;
  Bytes budget{};
  bool operator==(const BudgetChange&) const = default;
};

// Bytes of a saved value left the device tier.
struct Eviction {
  enum class How : uint8_t {
    kDrop,   // can be rematerialized
    kSpill,  // was copied to a slower tier
  };
  int64_t time = 0;
  int name = 0;
  Bytes bytes{};
  How how = How::kDrop;
  bool operator==(const Eviction&) const = default;
};

// Who was alive at a peak worth explaining, largest first.
struct PeakHolder {
  int name = 0;
  Bytes bytes{};
  Kind kind = Kind::kOther;
  bool operator==(const PeakHolder&) const = default;
};
struct PeakRecord {
  int64_t time = 0;
  int64_t step = 0;
  std::vector<PeakHolder> holders;
  bool operator==(const PeakRecord&) const = default;
};

enum class TextKind : uint8_t {
  kNote,     // a line for people
  kRun,      // JSON: the command, versions, machine
  kProfile,  // planner/profile.h in its text form
  kPlan,     // planner/plan.h in its text form; in force from `time` on
  kReport,   // JSON: what EBBTIDE_REPORT says
};
struct TraceText {
  int64_t time = 0;
  TextKind kind = TextKind::kNote;
  std::string text;
  bool operator==(const TraceText&) const = default;
};

struct Trace {
  int64_t process = 0;
  int64_t unix_nanos = 0;  // wall clock at `start`
  int64_t start = 0;
  std::vector<std::string> names;
  std::vector<CurveSample> curve;
  std::vector<Span> spans;  // in the order they ended
  std::vector<StepRecord> steps;
  std::vector<BudgetChange> budgets;
  std::vector<Eviction> evictions;
  std::vector<PeakRecord> peaks;
  std::vector<TraceText> texts;

  // The writer was closed. False for a run that was killed, or still runs.
  bool complete = false;
  // Records that the writer left out, because it was full or could not keep up.
  int64_t dropped = 0;
  // Why reading stopped before the end of the file; empty if it did not.
  std::string damage;
};

// Reads up to the last whole record; what follows it is named in `damage`.
// Errors: the file cannot be read (code of errno), is not a trace, or has
// another version (InvalidArgument).
absl::StatusOr<Trace> ReadTrace(const std::string& path);

// The same for the bytes of a file; `origin` names it in errors.
absl::StatusOr<Trace> ParseTrace(const std::string& bytes,
                                 const std::string& origin);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_H_
