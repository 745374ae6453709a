// What a TraceWriter and its thread share (profiler/trace_writer.h).
#ifndef EBBTIDE_PROFILER_TRACE_WRITER_CORE_H_
#define EBBTIDE_PROFILER_TRACE_WRITER_CORE_H_

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "profiler/trace_format.h"
#include "profiler/trace_writer.h"

namespace ebbtide {

// What a record is worth when the file is nearly full. Names are always
// written: records refer to them by number.
enum class TraceWorth { kDetail, kKeep, kAlways };

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
  bool AppendBlock(const BlockEvent& event);
  bool AppendLateFrees(int64_t time);
  void EndDetail();
  bool IsFull(size_t size) const;
  bool HasRoom(TraceWorth worth, size_t size) const;
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
  int64_t size = 0;  // of the file, with what is buffered
  std::atomic<int64_t> dropped = 0;
  std::atomic<bool> detail_ended = false;  // for good
  Bytes in_blocks{};  // of the blocks that the file has as alive
  // Blocks that were freed when the buffer had no room, with their bytes.
  std::vector<std::pair<int64_t, Bytes>> late_frees;
  trace_format::Context context;
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
  return true;
}

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TRACE_WRITER_CORE_H_
