// State shared by a TraceWriter and its thread (profiler/trace_writer.h).
#ifndef EBBTIDE_PROFILER_TRACE_WRITER_CORE_H_
#define EBBTIDE_PROFILER_TRACE_WRITER_CORE_H_

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "profiler/trace_format.h"
#include "profiler/trace_gap.h"
#include "profiler/trace_writer.h"

namespace ebbtide {

// The priority of a record when the file is nearly full. Names are always
// written: records refer to them by number.
enum class TraceWorth { kDetail, kKeep, kAlways };

// The step that goes on, where it may be left out: what happens in it is held
// back until that is known.
struct HeldStep {
  int64_t index = 0;
  int64_t begin = 0;
  bool is_due = false;      // its turn to be recorded
  int64_t first_block = 0;  // number of the next block when it began
  Bytes live{};             // then
  bool is_whole = true;     // no part of it is missing
  std::vector<TraceDetail> details;
  std::optional<StepRecord> end;
};

// More than any record needs that is not a name, a text or a peak.
inline constexpr size_t kSmallRecord = 128;

struct TraceWriter::Core {
  Core(int file, std::string path, const TraceOptions& options)
      : file(file), path(std::move(path)), options(options) {
    filling.reserve(Count(options.buffer));
    writing.reserve(Count(options.buffer));
  }
  ~Core() { close(file); }

  template <typename Body>
  bool Append(trace_format::Type type, TraceWorth worth, size_t size,
              Body body);
  template <typename Body>
  size_t Put(trace_format::Type type, Body body);
  // Into the file, or to what is held back.
  bool AddDetail(const TraceDetail& detail);
  bool AddEarlierSpan(Span span);
  void BeginStep(int64_t index, int64_t time);
  void EndStep(const StepRecord& step);
  void BeginThinning();
  // The held step is over: it is written, or becomes part of a gap.
  void SettleStep(bool is_last);
  bool WriteStep(bool is_last);
  void LeaveOutStep();
  void TellGap();
  void NoteSize(int64_t step);
  // How many steps there are from one that is recorded to the next, by how full
  // the file is.
  int64_t Distance() const;
  int64_t RoomForLastStep() const;
  bool AppendLateFrees(int64_t time);
  void EndDetail();
  bool IsFull(size_t size) const;
  bool HasRoom(TraceWorth worth, size_t size) const;
  // Keeps room for all parts of a text; false: there is none, and the text is
  // left out.
  bool ReserveForText(size_t bytes);
  // Without the mutex. False: the record of detail that is at hand is left out.
  bool TakesDetail();
  void WaitForRoom(std::unique_lock<std::mutex>& lock, size_t size);
  void Loop();
  void WriteOut(std::unique_lock<std::mutex>& lock);

  const int file;
  const std::string path;
  const TraceOptions options;
  std::atomic<bool> open = true;

  std::mutex text_mutex;  // taken before `mutex`
  std::mutex mutex;
  std::condition_variable wake;     // for the thread
  std::condition_variable written;  // for who waits for it
  std::string filling;              // records without checksums
  std::string writing;              // owned by the thread while `busy`
  bool busy = false;
  bool stop = false;
  bool stopped = false;
  absl::Status status;
  int64_t size = 0;           // size of the file, with buffered records
  int64_t room_for_text = 0;  // room for the text being written
  std::atomic<int64_t> dropped = 0;
  std::atomic<bool> detail_ended = false;  // a step was cut; for good
  Bytes in_blocks{};  // bytes of the blocks that the file has as alive, or will
                      // have
  // Blocks that were freed when the buffer had no room, with their bytes.
  std::vector<std::pair<int64_t, Bytes>> late_frees;
  trace_format::Context context;

  // Steps, in profiler/trace_writer_steps.cc.
  bool thins = false;  // since the file was half full
  std::optional<HeldStep> held;
  std::vector<TraceDetail> spare;  // memory for the next
  MissedDetail missed;             // in the gap before the held one
  std::optional<TraceGap> untold;  // steps that no record calls left out yet
  Bytes told{};                    // bytes of the blocks that the file has as
                                   // alive
  Bytes live{};                    // after the last event
  int64_t next_block = 0;
  int64_t last_kept = -1;  // step
  // When the last steps began, and whether they are in the file.
  std::deque<std::pair<int64_t, bool>> fates;
  bool is_end = false;             // nothing follows but the last step
  int64_t detail_bytes = 0;        // detail of all records so far
  int64_t detail_before_step = 0;  // detail of those before the last step
  int64_t largest_step = 0;        // bytes of detail in one
  absl::flat_hash_map<std::string, int> names;
};

// `body` encodes the fields, in at most `bytes` bytes. Under the mutex. False:
// the record is left out.
template <typename Body>
bool TraceWriter::Core::Append(trace_format::Type type, TraceWorth worth,
                               size_t bytes, Body body) {
  bytes += trace_format::kRecordHeader + 1;
  if (!status.ok()) return false;
  if (worth == TraceWorth::kDetail && !detail_ended && IsFull(bytes))
    EndDetail();
  if (!HasRoom(worth, bytes)) {
    ++dropped;
    return false;
  }
  const size_t length = Put(type, body);
  if (worth == TraceWorth::kDetail) detail_bytes += length;
  return true;
}

// Appends the record, for which there is room. Returns its length.
template <typename Body>
size_t TraceWriter::Core::Put(trace_format::Type type, Body body) {
  const size_t begin = filling.size();
  filling.append(trace_format::kRecordHeader, '\0');
  filling.push_back(static_cast<char>(type));
  trace_format::Encoder out(filling, context);
  body(out);
  const size_t length = filling.size() - begin;
  trace_format::PutU32(&filling[begin], length - trace_format::kRecordHeader);
  size += length;
  if (filling.size() > static_cast<size_t>(Count(options.buffer)) / 2) {
    wake.notify_one();
  }
  return length;
}

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_WRITER_CORE_H_
