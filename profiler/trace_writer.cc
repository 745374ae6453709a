#include "profiler/trace_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "profiler/clock.h"
#include "profiler/detached_thread.h"
#include "profiler/trace_format.h"

namespace ebbtide {

using trace_format::Encoder;
using trace_format::Type;

namespace {

constexpr std::chrono::milliseconds kInterval(100);
// More than any record needs that is not a name, a text or a peak.
constexpr size_t kSmallRecord = 128;

// What a record is worth when the file is nearly full. Names are always
// written: records refer to them by number.
enum class Worth { kDetail, kKeep, kAlways };

}  // namespace

// What the writer and its thread share.
struct TraceWriter::Core {
  Core(int file, std::string path, const TraceOptions& options)
      : file(file), path(std::move(path)), options(options) {
    filling.reserve(Count(options.buffer));
    writing.reserve(Count(options.buffer));
  }
  ~Core() { close(file); }

  template <typename Body>
  bool Append(Type type, Worth worth, size_t size, Body body);
  bool AppendBlock(const BlockEvent& event);
  bool AppendLateFrees(int64_t time);
  void EndDetail();
  bool IsFull(size_t size) const;
  bool HasRoom(Worth worth, size_t size) const;
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
  int64_t dropped = 0;
  bool detail_ended = false;
  Bytes in_blocks{};  // of the blocks that the file has as alive
  // Blocks that were freed when the buffer had no room, with their bytes.
  std::vector<std::pair<int64_t, Bytes>> late_frees;
  trace_format::Context context;
  absl::flat_hash_map<std::string, int> names;
};

// Whether the file has no room for so much more detail. Under the mutex.
bool TraceWriter::Core::IsFull(size_t bytes) const {
  const int64_t max = Count(options.max_size);
  const int64_t reserve = std::min<int64_t>(max / 8, 1 << 20);
  return size + static_cast<int64_t>(bytes) > max - reserve;
}

// Under the mutex.
bool TraceWriter::Core::HasRoom(Worth worth, size_t bytes) const {
  if (worth == Worth::kAlways) return true;
  if (worth == Worth::kDetail && detail_ended) return false;
  constexpr int64_t kForTheEnd = 64;
  return size + static_cast<int64_t>(bytes) <=
             Count(options.max_size) - kForTheEnd &&
         filling.size() + bytes <= static_cast<size_t>(Count(options.buffer));
}

// `body` encodes the fields, in at most `bytes` bytes. Under the mutex. False:
// the record is left out.
template <typename Body>
bool TraceWriter::Core::Append(Type type, Worth worth, size_t bytes,
                               Body body) {
  bytes += trace_format::kRecordHeader + 1;
  if (!status.ok()) return false;
  if (worth == Worth::kDetail && !detail_ended && IsFull(bytes)) EndDetail();
  if (!HasRoom(worth, bytes)) {
    ++dropped;
    return false;
  }
  const size_t begin = filling.size();
  filling.append(trace_format::kRecordHeader, '\0');
  filling.push_back(static_cast<char>(type));
  Encoder out(filling, context);
  body(out);
  const size_t length = filling.size() - begin;
  trace_format::PutU32(&filling[begin], length - trace_format::kRecordHeader);
  size += length;
  if (filling.size() > static_cast<size_t>(Count(options.buffer)) / 2) {
    wake.notify_one();
  }
  return true;
}

// What is not told from here on must not be taken for what has not happened.
void TraceWriter::Core::EndDetail() {
  Append(Type::kDetailEnd, Worth::kKeep, kSmallRecord,
         [](Encoder& out) { out.Time(NowNanos()); });
  detail_ended = true;
}

bool TraceWriter::Core::AppendBlock(const BlockEvent& event) {
  return Append(Type::kBlock, Worth::kDetail, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, event); });
}

// False where some are still left.
bool TraceWriter::Core::AppendLateFrees(int64_t time) {
  while (!late_frees.empty()) {
    const auto [block, bytes] = late_frees.back();
    if (!AppendBlock({.what = BlockEvent::What::kFree,
                      .time = time,
                      .block = block,
                      .rest = context.rest + bytes})) {
      return false;
    }
    in_blocks -= bytes;
    late_frees.pop_back();
  }
  return true;
}

void TraceWriter::Core::WaitForRoom(std::unique_lock<std::mutex>& lock,
                                    size_t bytes) {
  written.wait(lock, [&] {
    return stopped || !status.ok() || filling.empty() ||
           filling.size() + bytes <= static_cast<size_t>(Count(options.buffer));
  });
}

void TraceWriter::Core::Loop() {
  std::unique_lock lock(mutex);
  while (!stop || !filling.empty()) {
    if (!stop) wake.wait_for(lock, kInterval);
    WriteOut(lock);
  }
  stopped = true;
  written.notify_all();
}

void TraceWriter::Core::WriteOut(std::unique_lock<std::mutex>& lock) {
  if (filling.empty()) return;
  busy = true;
  std::swap(filling, writing);
  written.notify_all();
  lock.unlock();
  for (size_t at = 0; at < writing.size();) {
    const uint32_t length = trace_format::GetU32(&writing[at]);
    const size_t payload = at + trace_format::kRecordHeader;
    trace_format::PutU32(&writing[at + 4],
                         trace_format::Crc32c(&writing[payload], length));
    at = payload + length;
  }
  int error = 0;
  for (size_t done = 0; done < writing.size() && error == 0;) {
    const ssize_t n =
        ::write(file, writing.data() + done, writing.size() - done);
    if (n > 0) done += n;
    if (n == 0 || (n < 0 && errno != EINTR)) error = n == 0 ? ENOSPC : errno;
  }
  writing.clear();
  lock.lock();
  busy = false;
  if (error != 0 && status.ok()) {
    status = absl::ErrnoToStatus(
        error, absl::StrCat("trace ", path, ": cannot be written"));
  }
  written.notify_all();
}

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Open(
    const std::string& path, const TraceOptions& options) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("trace ", path, ": cannot open"));
  }
  auto core = std::make_shared<Core>(file, path, options);
  // Pipes and devices can be shared, and have no length.
  struct stat about = {};
  const bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  if (regular && flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat("trace ", path, ": another process writes it"));
  }
  char header[trace_format::kFileHeader] = {};
  absl::string_view(trace_format::kMagic).copy(header, 8);
  trace_format::PutU32(header + 8, trace_format::kVersion);
  if ((regular && ftruncate(file, 0) != 0) ||
      ::write(file, header, sizeof(header)) != sizeof(header)) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("trace ", path, ": cannot write"));
  }
  core->size = sizeof(header);
  core->Append(Type::kStart, Worth::kAlways, kSmallRecord, [](Encoder& out) {
    out.Int(getpid());
    out.Int(std::chrono::duration_cast<std::chrono::nanoseconds>(
                std::chrono::system_clock::now().time_since_epoch())
                .count());
    out.Time(NowNanos());
  });
  if (!StartDetachedThread("ebbtide-trace", [core] { core->Loop(); })) {
    return absl::ResourceExhaustedError(
        absl::StrCat("trace ", path, ": the system refused a thread"));
  }
  return std::unique_ptr<TraceWriter>(new TraceWriter(std::move(core)));
}

TraceWriter::TraceWriter(std::shared_ptr<Core> core) : core_(std::move(core)) {}

TraceWriter::~TraceWriter() { Close().IgnoreError(); }

int TraceWriter::Name(absl::string_view name) {
  if (!core_->open) return 0;
  name = name.substr(0, trace_format::kTextPart);
  std::lock_guard lock(core_->mutex);
  const auto known = core_->names.find(name);
  if (known != core_->names.end()) return known->second;
  const int number = static_cast<int>(core_->names.size());
  core_->names.emplace(name, number);
  core_->Append(Type::kName, Worth::kAlways, kSmallRecord + name.size(),
                [&](Encoder& out) { out.Text(name); });
  return number;
}

int64_t TraceWriter::Allocate(int64_t time, Bytes bytes, Kind kind, int name,
                              Bytes live) {
  if (!core_->open) return kNoBlock;
  std::lock_guard lock(core_->mutex);
  if (!core_->AppendLateFrees(time)) return kNoBlock;
  const int64_t number = core_->context.blocks;
  const bool is_in =
      core_->AppendBlock({.what = BlockEvent::What::kAllocate,
                          .time = time,
                          .bytes = bytes,
                          .kind = kind,
                          .name = name,
                          .rest = live - core_->in_blocks - bytes});
  if (!is_in) return kNoBlock;
  core_->in_blocks += bytes;
  return number;
}

void TraceWriter::Free(int64_t time, int64_t block, Bytes bytes, Bytes live) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  if (core_->AppendLateFrees(time) &&
      core_->AppendBlock({.what = BlockEvent::What::kFree,
                          .time = time,
                          .block = block,
                          .rest = live - (core_->in_blocks - bytes)})) {
    core_->in_blocks -= bytes;
  } else if (!core_->detail_ended) {
    core_->late_frees.emplace_back(block, bytes);
  }
}

void TraceWriter::Retag(int64_t time, int64_t block, Kind kind, Bytes live) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->AppendLateFrees(time);
  core_->AppendBlock({.what = BlockEvent::What::kRetag,
                      .time = time,
                      .block = block,
                      .kind = kind,
                      .rest = live - core_->in_blocks});
}

void TraceWriter::ForgetBlocks(int64_t time, Bytes live) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  if (core_->AppendBlock(
          {.what = BlockEvent::What::kForget, .time = time, .rest = live})) {
    core_->in_blocks = Bytes{0};
    core_->late_frees.clear();
  }
}

void TraceWriter::Add(const BlockNote& note) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kNote, Worth::kDetail, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, note); });
}

void TraceWriter::Add(const TierSample& sample) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kTier, Worth::kDetail, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, sample); });
}

void TraceWriter::Add(const Span& span) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kSpan, Worth::kDetail, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, span); });
}

void TraceWriter::Add(const BudgetChange& budget) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kBudget, Worth::kKeep, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, budget); });
}

void TraceWriter::Add(const Eviction& eviction) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kEviction, Worth::kDetail, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, eviction); });
}

void TraceWriter::BeginStep(int64_t index, int64_t time) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kStepBegin, Worth::kKeep, kSmallRecord,
                [&](Encoder& out) {
                  out.Int(index);
                  out.Time(time);
                });
}

void TraceWriter::EndStep(int64_t index, int64_t time, Bytes peak) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kStepEnd, Worth::kKeep, kSmallRecord, [&](Encoder& out) {
    out.Int(index);
    out.Time(time);
    out.Size(peak);
  });
}

void TraceWriter::AddPeak(const PeakRecord& peak) {
  if (!core_->open) return;
  const size_t holders =
      std::min<size_t>(peak.holders.size(), trace_format::kPeakHolders);
  const size_t bytes = kSmallRecord + 24 * holders;
  std::unique_lock lock(core_->mutex);
  core_->WaitForRoom(lock, bytes);
  core_->Append(Type::kPeak, Worth::kKeep, bytes, [&](Encoder& out) {
    out.Time(peak.time);
    out.Int(peak.step);
    for (size_t i = 0; i < holders; ++i) {
      trace_format::Fields(out, peak.holders[i]);
    }
  });
}

void TraceWriter::AddText(const TraceText& text) {
  if (!core_->open) return;
  // The parts of a text follow each other, though waiting for room gives up the
  // lock on the buffer.
  std::lock_guard one_text(core_->text_mutex);
  absl::string_view rest = text.text;
  bool more = true;
  while (more) {
    const absl::string_view part = rest.substr(0, trace_format::kTextPart);
    rest.remove_prefix(part.size());
    more = !rest.empty();
    std::unique_lock lock(core_->mutex);
    core_->WaitForRoom(lock, kSmallRecord + part.size());
    core_->Append(Type::kText, Worth::kKeep, kSmallRecord + part.size(),
                  [&](Encoder& out) {
                    out.Choice(text.kind, 5);
                    out.Choice(more, 2);
                    out.Time(text.time);
                    out.Text(part);
                  });
  }
}

absl::Status TraceWriter::Close() {
  const bool was_open = core_->open.exchange(false);
  std::unique_lock lock(core_->mutex);
  if (!was_open) return core_->status;
  core_->Append(Type::kEnd, Worth::kAlways, kSmallRecord,
                [this](Encoder& out) { out.Int(core_->dropped); });
  core_->stop = true;
  core_->wake.notify_one();
  core_->written.wait(lock, [this] { return core_->stopped; });
  return core_->status;
}

int64_t TraceWriter::dropped() const {
  std::lock_guard lock(core_->mutex);
  return core_->dropped;
}

void TraceWriter::BeforeFork() { core_->mutex.lock(); }

void TraceWriter::AfterForkInParent() { core_->mutex.unlock(); }

void TraceWriter::AfterForkInChild() {
  core_->open = false;
  core_->mutex.unlock();
}

}  // namespace ebbtide
