// Everything that happened in a run: the data of a trace file, and its reader.
// (Written by profiler/trace_writer.h; read piece by piece by
// profiler/trace_visitor.h.)
//
// All times are nanoseconds of the writer's steady clock. Blocks of memory are
// numbered in the order in which they were allocated, from 0; a value that was
// evicted and came back is known by the number of its first block.
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

inline constexpr int64_t kNoBlock = -1;

// Something happened to a block of memory. Live bytes are those of all blocks
// that are alive, by their kinds, and the rest: small blocks, and those that
// were there before the trace, which count as kOther. So the sum is exact at
// every event.
struct BlockEvent {
  enum class What : uint8_t {
    kAllocate,  // the next number
    kFree,
    kRetag,   // it is of another kind from now on
    kForget,  // blocks alive have no further records
    kFound,   // was allocated in a gap, and is alive behind it. In files only:
              // readers get it as a kAllocate
  };
  What what = What::kAllocate;
  int64_t time = 0;
  int64_t block = kNoBlock;  // none of kForget
  Bytes bytes{};             // for kAllocate
  Kind kind = Kind::kOther;  // for kAllocate and kRetag
  int name = -1;             // for kAllocate: the op inside which, or -1
  Bytes rest{};              // live bytes in no block of the trace, from now on
  bool operator==(const BlockEvent&) const = default;
};

// A further fact about a block.
struct BlockNote {
  enum class What : uint8_t {
    kShape,       // autograd saves it; `name` is its shape and type
    kMadeBy,      // `name` is the op, where none was known at its allocation
    kUnpackedBy,  // `name` is the backward op that asked for it
    kReturns,     // it holds again what block `value` held
    kOfLayer,     // `name` is the module it belongs to, or the parameter it is
                  // or is the gradient of
  };
  What what = What::kShape;
  int64_t block = kNoBlock;
  int name = -1;
  int64_t value = kNoBlock;
  bool operator==(const BlockNote&) const = default;
};
inline constexpr int kBlockNotes = 5;

// Bytes that lie in slower tiers from `time` on.
struct TierSample {
  int64_t time = 0;
  Bytes host{};
  Bytes disk{};
  bool operator==(const TierSample&) const = default;
};

enum class SpanKind : uint8_t {
  kForward,    // an op of the program, in its forward pass
  kBackward,   // a backward op (stage)
  kRecompute,  // an op recomputed by ebbtide
  kOffload,    // a copy to a slower tier
  kRestore,    // a copy back
  kStall,      // the program waited for ebbtide
};
inline constexpr int kSpanKinds = 6;
const char* SpanKindName(SpanKind kind);

// By the host's clock, of work that is queued when the device did it. In a file
// they come when that is known, in about the order of their ends.
struct Span {
  SpanKind kind = SpanKind::kForward;
  int name = 0;  // index of Trace::names: the op or value
  int64_t begin = 0;
  int64_t end = 0;
  Bytes bytes{};             // for a copy or a recomputed value, else 0
  int64_t value = kNoBlock;  // the value, of these
  bool operator==(const Span&) const = default;
};

// Steps `first` to `last`, of which only times and peaks are recorded. Behind
// them blocks are freed, retagged and allocated to what is alive then.
struct TraceGap {
  int64_t first = 0;
  int64_t last = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TraceGap&) const = default;
};

// One forward/backward pair. `end` is 0, and the peak too, if the run stops
// inside it: such a step does not count (hooks/step_log.h).
struct StepRecord {
  int64_t index = 0;
  int64_t begin = 0;
  int64_t end = 0;
  Bytes peak{};
  bool operator==(const StepRecord&) const = default;
};

// Appends the gap, or makes the last one longer where it goes on.
void AddGap(const TraceGap& gap, std::vector<TraceGap>* gaps);

struct BudgetChange {
  int64_t time = 0;
  Bytes budget{};
  bool operator==(const BudgetChange&) const = default;
};

// Bytes of a saved value left the device tier.
struct Eviction {
  enum class How : uint8_t {
    kDrop,   // can be recomputed
    kSpill,  // was copied to a slower tier
  };
  int64_t time = 0;
  int name = 0;
  Bytes bytes{};
  How how = How::kDrop;
  int64_t value = kNoBlock;
  bool planned = false;  // a plan had it go; else memory was short
  bool operator==(const Eviction&) const = default;
};

// A block alive at a peak worth explaining; the list has the largest first.
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
  // In version 2: one sample for each event of a block.
  std::vector<CurveSample> curve;
  std::vector<BlockEvent> blocks;
  std::vector<BlockNote> notes;
  std::vector<TierSample> tiers;
  std::vector<Span> spans;  // in the order they ended
  std::vector<StepRecord> steps;
  std::vector<TraceGap> gaps;  // neighbours are one
  std::vector<BudgetChange> budgets;
  std::vector<Eviction> evictions;
  std::vector<PeakRecord> peaks;
  std::vector<TraceText> texts;

  // From when on the file was too full for more than steps, budgets, peaks and
  // texts; 0: it was not.
  int64_t detail_end = 0;
  // The writer was closed. False for a run that was killed, or still runs.
  bool complete = false;
  // Records that the writer left out, because it was full or could not keep up.
  int64_t dropped = 0;
  // Why reading stopped before the end of the file; empty if it did not.
  std::string damage;
};

// Reads up to the last whole record; what follows it is named in `damage`.
// Errors: the file cannot be read (code of errno), is not a trace, or has
// a version that this program does not know (InvalidArgument).
absl::StatusOr<Trace> ReadTrace(const std::string& path);

// The same for the bytes of a file; `origin` names it in errors.
absl::StatusOr<Trace> ParseTrace(const std::string& bytes,
                                 const std::string& origin);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_H_
