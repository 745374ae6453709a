#include "profiler/cupti_collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ebbtide {

CuptiCollector& CuptiCollector::Get() {
  static auto& collector = *new CuptiCollector;
  return collector;
}

absl::Status CuptiCollector::Open(const CuptiLayout& layout,
                                  CuptiNextRecord next_record,
                                  const Limits& limits) {
  std::lock_guard lock(mutex_);
  if (window_ != nullptr) {
    return absl::FailedPreconditionError("CUPTI: a window is open already");
  }
  window_ = std::make_unique<Window>();
  window_->layout = layout;
  window_->next_record = next_record;
  window_->limits = limits;
  ++windows_;
  return absl::OkStatus();
}

bool CuptiCollector::is_open() const {
  std::lock_guard lock(mutex_);
  return window_ != nullptr;
}

int CuptiCollector::lent() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(lent_.size());
}

// Buffers of the open window that are still out, under the mutex.
int CuptiCollector::Outstanding() const {
  return static_cast<int>(std::count_if(
      lent_.begin(), lent_.end(),
      [this](const auto& entry) { return entry.second.window == windows_; }));
}

bool CuptiCollector::AwaitBuffers(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] {
    return window_ == nullptr || (window_->reading == 0 && Outstanding() == 0);
  });
}

CuptiCollector::Collected CuptiCollector::Close() {
  std::unique_lock lock(mutex_);
  Collected collected;
  if (window_ == nullptr) {
    collected.status =
        absl::FailedPreconditionError("CUPTI: no window is open");
    return collected;
  }
  // Parsing is work of our own, and short.
  changed_.wait(lock, [this] { return window_->reading == 0; });
  collected.lost_buffers = Outstanding();
  collected.records = std::move(window_->records);
  collected.status = window_->damage;
  if (window_->declined > 0) {
    collected.status.Update(absl::ResourceExhaustedError(absl::StrCat(
        "CUPTI: ", window_->declined, " requests for a buffer beyond ",
        window_->limits.buffers, " of ", window_->limits.buffer, " bytes")));
  }
  window_ = nullptr;
  return collected;
}

void CuptiCollector::Request(uint8_t** buffer, size_t* size, size_t* records) {
  *buffer = nullptr;
  *size = 0;
  *records = 0;  // as many as fit
  std::lock_guard lock(mutex_);
  if (window_ == nullptr) return;
  if (lent_.size() >= static_cast<size_t>(window_->limits.buffers)) {
    ++window_->declined;
    return;
  }
  Memory memory;
  if (window_->free.empty()) {
    memory.reset(new uint64_t[window_->limits.buffer / sizeof(uint64_t)]);
  } else {
    memory = std::move(window_->free.back());
    window_->free.pop_back();
  }
  *buffer = reinterpret_cast<uint8_t*>(memory.get());
  *size = window_->limits.buffer;
  lent_[*buffer] = {std::move(memory), *size, windows_};
}

void CuptiCollector::Complete(uint8_t* buffer, size_t valid) {
  std::unique_lock lock(mutex_);
  const auto found = lent_.find(buffer);
  if (found == lent_.end()) {
    if (window_ != nullptr) {
      window_->damage.Update(
          absl::DataLossError("CUPTI: a buffer came back that was not lent"));
    }
    return;
  }
  Lent lent = std::move(found->second);
  lent_.erase(found);
  // An earlier window's records would be wrong in this one.
  if (window_ == nullptr || lent.window != windows_) return;
  Window& window = *window_;
  const int64_t number = ++window.completed;
  if (valid > lent.size) {
    window.damage.Update(absl::DataLossError(
        absl::StrCat("CUPTI buffer ", number, ": ", valid, " of ", lent.size,
                     " bytes are said to be valid")));
    valid = 0;
  }
  ++window.reading;  // from here on the window stays
  const CuptiLayout layout = window.layout;
  const CuptiNextRecord next_record = window.next_record;
  lock.unlock();
  CuptiRecords records;
  const absl::Status parsed =
      ParseCuptiBuffer({buffer, valid}, absl::StrCat("buffer ", number), layout,
                       next_record, &records);
  lock.lock();
  Keep(records, parsed);
  window.free.push_back(std::move(lent.memory));
  --window.reading;
  changed_.notify_all();
}

// Under the mutex.
void CuptiCollector::Keep(const CuptiRecords& records,
                          const absl::Status& parsed) {
  Window& window = *window_;
  window.damage.Update(parsed);
  // Incomplete records are useless.
  if (!window.damage.ok()) {
    window.records = {};
    return;
  }
  if (window.records.size() + records.size() > window.limits.records) {
    window.damage.Update(absl::ResourceExhaustedError(
        absl::StrCat("CUPTI: more than ", window.limits.records, " records")));
    window.records = {};
    return;
  }
  window.records.Append(records);
}

}  // namespace ebbtide
