// Appends what happens in a run to a trace file, off the training thread: calls
// encode into a buffer, a background thread writes it out ten times a second.
// A process that is killed loses at most that.
//
// No call fails or waits for the disk, except AddText and AddPeak, which may
// wait for the background thread. Records that find no room in the buffer are
// left out and counted.
//
// Steps are recorded whole or not at all, but for their times and peaks. Once
// half of `max_size` is used every second one is recorded, and the distance
// doubles with each further 32nd part; missing steps are recorded as gaps. Such
// steps are written when they are over. There is always room for the last one,
// which is written at the end whether it was its turn or not, unless it is
// larger than a quarter of `max_size` or than 64 MiB of memory. One that begins
// in the first half and takes all of the other is cut, and a record says so;
// from then on there are only steps, budgets, peaks and texts. Names and the
// end are written even where there is no room for those. Bytes of blocks that
// are left out are part of the rest (see BlockEvent), so live bytes stay exact
// for as long as blocks are written at all.
//
// Thread-safe. One lock per record, no allocation after the buffers are full
// grown.
#ifndef EBBTIDE_PROFILER_TRACE_WRITER_H_
#define EBBTIDE_PROFILER_TRACE_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/units.h"
#include "profiler/trace.h"

namespace ebbtide {

struct TraceOptions {
  Bytes max_size{int64_t{1} << 30};
  Bytes buffer{4 << 20};
};

class TraceWriter {
 public:
  // Replaces what is at `path`. Errors: it cannot be written (code of errno),
  // another process writes it (FailedPrecondition), or the system refuses a
  // thread (ResourceExhausted).
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Open(
      const std::string& path, const TraceOptions& options = {});
  ~TraceWriter();  // closes
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // False from when a step was cut: only steps, peaks, budgets and texts are
  // still written. Lock-free.
  bool takes_detail() const;
  // The number of a name, the same for the same text.
  int Name(absl::string_view name);

  // A block was allocated; `live` bytes are alive from then on. Returns its
  // number, or kNoBlock if it was left out: it gets no further records.
  int64_t Allocate(int64_t time, Bytes bytes, Kind kind, int name, Bytes live);
  void Free(int64_t time, int64_t block, Bytes bytes, Bytes live);
  void Retag(int64_t time, int64_t block, Kind kind, Bytes live);
  // Blocks that are alive get no further records. Numbers go on.
  void ForgetBlocks(int64_t time, Bytes live);
  void Add(const BlockNote& note);
  void Add(const TierSample& sample);
  void Add(const Span& span);
  void Add(const BudgetChange& budget);
  void Add(const Eviction& eviction);
  void BeginStep(int64_t index, int64_t time);
  void EndStep(int64_t index, int64_t time, Bytes peak);
  // The first 1000 holders are kept.
  void AddPeak(const PeakRecord& peak);
  void AddText(const TraceText& text);

  // Writes out everything and the end. Later calls do nothing. OK if the whole
  // trace is in the file, but for records left out.
  absl::Status Close();
  int64_t dropped() const;

  // Around fork(). The child writes nothing; its calls return at once.
  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();

 private:
  struct Core;
  template <typename Detail>
  void AddDetail(const Detail& detail);
  explicit TraceWriter(std::shared_ptr<Core> core);

  const std::shared_ptr<Core> core_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_WRITER_H_
