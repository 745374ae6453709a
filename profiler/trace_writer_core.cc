#include "profiler/trace_writer_core.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "profiler/clock.h"

namespace ebbtide {

using trace_format::Encoder;
using trace_format::Type;

namespace {

constexpr std::chrono::milliseconds kInterval(100);

}  // namespace

// True if the file has no room for that much more detail. Under the mutex.
bool TraceWriter::Core::IsFull(size_t bytes) const {
  const int64_t max = Count(options.max_size);
  const int64_t reserve =
      std::min<int64_t>(max / 8, 1 << 20) + RoomForLastStep();
  return size + static_cast<int64_t>(bytes) > max - reserve;
}

bool TraceWriter::Core::TakesDetail() {
  if (!detail_ended) return true;
  ++dropped;
  return false;
}

// Under the mutex.
bool TraceWriter::Core::HasRoom(TraceWorth worth, size_t bytes) const {
  if (worth == TraceWorth::kAlways) return true;
  if (worth == TraceWorth::kDetail && detail_ended) return false;
  constexpr int64_t kForTheEnd = 64;
  return size + static_cast<int64_t>(bytes) <=
             Count(options.max_size) - kForTheEnd - RoomForLastStep() -
                 room_for_text &&
         filling.size() + bytes <= static_cast<size_t>(Count(options.buffer));
}

bool TraceWriter::Core::ReserveForText(size_t bytes) {
  const auto parts = static_cast<int64_t>(bytes / trace_format::kTextPart + 1);
  const int64_t needed =
      static_cast<int64_t>(bytes) + parts * static_cast<int64_t>(kSmallRecord);
  constexpr int64_t kForTheEnd = 64;
  if (size + needed >
      Count(options.max_size) - kForTheEnd - RoomForLastStep()) {
    ++dropped;
    return false;
  }
  room_for_text = needed;
  return true;
}

// Marks the end of detail, so that missing records are not mistaken for missing
// events.
void TraceWriter::Core::EndDetail() {
  Append(Type::kDetailEnd, TraceWorth::kKeep, kSmallRecord,
         [](Encoder& out) { out.Time(NowNanos()); });
  detail_ended = true;
}

// False where some are still left.
bool TraceWriter::Core::AppendLateFrees(int64_t time) {
  while (!late_frees.empty()) {
    const auto [block, bytes] = late_frees.back();
    if (!AddDetail(BlockEvent{.what = BlockEvent::What::kFree,
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

}  // namespace ebbtide
