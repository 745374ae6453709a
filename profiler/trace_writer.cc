#include "profiler/trace_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "profiler/clock.h"
#include "profiler/detached_thread.h"
#include "profiler/trace_format.h"
#include "profiler/trace_writer_core.h"

namespace ebbtide {

using trace_format::Encoder;
using trace_format::Type;

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
  core->Append(
      Type::kStart, TraceWorth::kAlways, kSmallRecord, [](Encoder& out) {
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
  core_->Append(Type::kName, TraceWorth::kAlways, kSmallRecord + name.size(),
                [&](Encoder& out) { out.Text(name); });
  return number;
}

int64_t TraceWriter::Allocate(int64_t time, Bytes bytes, Kind kind, int name,
                              Bytes live) {
  if (!core_->open || !core_->TakesDetail()) return kNoBlock;
  std::lock_guard lock(core_->mutex);
  if (!core_->AppendLateFrees(time)) return kNoBlock;
  const int64_t number =
      core_->held ? core_->next_block++ : core_->context.blocks;
  const bool is_in =
      core_->AddDetail(BlockEvent{.what = BlockEvent::What::kAllocate,
                                  .time = time,
                                  .block = number,
                                  .bytes = bytes,
                                  .kind = kind,
                                  .name = name,
                                  .rest = live - core_->in_blocks - bytes});
  if (!is_in) return kNoBlock;
  core_->in_blocks += bytes;
  core_->live = live;
  return number;
}

void TraceWriter::Free(int64_t time, int64_t block, Bytes bytes, Bytes live) {
  if (!core_->open || !core_->TakesDetail()) return;
  std::lock_guard lock(core_->mutex);
  core_->live = live;
  if (core_->AppendLateFrees(time) &&
      core_->AddDetail(BlockEvent{.what = BlockEvent::What::kFree,
                                  .time = time,
                                  .block = block,
                                  .bytes = bytes,
                                  .rest = live - (core_->in_blocks - bytes)})) {
    core_->in_blocks -= bytes;
  } else if (!core_->detail_ended) {
    core_->late_frees.emplace_back(block, bytes);
  }
}

void TraceWriter::Retag(int64_t time, int64_t block, Kind kind, Bytes live) {
  if (!core_->open || !core_->TakesDetail()) return;
  std::lock_guard lock(core_->mutex);
  core_->live = live;
  core_->AppendLateFrees(time);
  core_->AddDetail(BlockEvent{.what = BlockEvent::What::kRetag,
                              .time = time,
                              .block = block,
                              .kind = kind,
                              .rest = live - core_->in_blocks});
}

void TraceWriter::ForgetBlocks(int64_t time, Bytes live) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->live = live;
  if (core_->AddDetail(BlockEvent{
          .what = BlockEvent::What::kForget, .time = time, .rest = live})) {
    core_->in_blocks = Bytes{0};
    core_->late_frees.clear();
  }
}

template <typename Detail>
void TraceWriter::AddDetail(const Detail& detail) {
  if (!core_->open || !core_->TakesDetail()) return;
  std::lock_guard lock(core_->mutex);
  core_->AddDetail(detail);
}

void TraceWriter::Add(const BlockNote& note) { AddDetail(note); }
void TraceWriter::Add(const TierSample& sample) { AddDetail(sample); }
void TraceWriter::Add(const Span& span) { AddDetail(span); }
void TraceWriter::Add(const Eviction& eviction) { AddDetail(eviction); }

void TraceWriter::Add(const BudgetChange& budget) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->Append(Type::kBudget, TraceWorth::kKeep, kSmallRecord,
                [&](Encoder& out) { trace_format::Fields(out, budget); });
}

void TraceWriter::BeginStep(int64_t index, int64_t time) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->BeginStep(index, time);
}

void TraceWriter::EndStep(int64_t index, int64_t time, Bytes peak) {
  if (!core_->open) return;
  std::lock_guard lock(core_->mutex);
  core_->EndStep({.index = index, .end = time, .peak = peak});
}

void TraceWriter::AddPeak(const PeakRecord& peak) {
  if (!core_->open) return;
  const size_t holders =
      std::min<size_t>(peak.holders.size(), trace_format::kPeakHolders);
  const size_t bytes = kSmallRecord + 24 * holders;
  std::unique_lock lock(core_->mutex);
  core_->WaitForRoom(lock, bytes);
  core_->Append(Type::kPeak, TraceWorth::kKeep, bytes, [&](Encoder& out) {
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
  {
    std::lock_guard lock(core_->mutex);
    if (!core_->ReserveForText(rest.size())) return;
  }
  bool more = true;
  while (more) {
    const absl::string_view part = rest.substr(0, trace_format::kTextPart);
    rest.remove_prefix(part.size());
    more = !rest.empty();
    std::unique_lock lock(core_->mutex);
    core_->WaitForRoom(lock, kSmallRecord + part.size());
    core_->Append(Type::kText, TraceWorth::kAlways, kSmallRecord + part.size(),
                  [&](Encoder& out) {
                    out.Choice(text.kind, 5);
                    out.Choice(more, 2);
                    out.Time(text.time);
                    out.Text(part);
                  });
    if (!more) core_->room_for_text = 0;
  }
}

absl::Status TraceWriter::Close() {
  const bool was_open = core_->open.exchange(false);
  std::unique_lock lock(core_->mutex);
  if (!was_open) return core_->status;
  core_->is_end = true;
  if (core_->held) core_->SettleStep(/*is_last=*/true);
  core_->Append(Type::kEnd, TraceWorth::kAlways, kSmallRecord,
                [this](Encoder& out) { out.Int(core_->dropped); });
  core_->stop = true;
  core_->wake.notify_one();
  core_->written.wait(lock, [this] { return core_->stopped; });
  return core_->status;
}

bool TraceWriter::takes_detail() const { return !core_->detail_ended; }

int64_t TraceWriter::dropped() const { return core_->dropped; }

void TraceWriter::BeforeFork() { core_->mutex.lock(); }

void TraceWriter::AfterForkInParent() { core_->mutex.unlock(); }

void TraceWriter::AfterForkInChild() {
  core_->open = false;
  core_->mutex.unlock();
}

}  // namespace ebbtide
