#include "allocator/ledger.h"

#include <algorithm>
#include <tuple>

namespace ebbtide {
namespace {

void Raise(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load();
  while (seen < value && !peak.compare_exchange_weak(seen, value)) {
  }
}

constexpr bool LeftOut(Kind kind) {
  return kind == Kind::kSaved || kind == Kind::kScratch;
}

}  // namespace

bool Ledger::TryTake(Bytes bytes, Kind kind) {
  if (kind != Kind::kOther) CountKind(kind, Count(bytes));
  int64_t live = live_.load(std::memory_order_relaxed);
  do {
    if (Count(bytes) > budget_ - live) {
      if (kind != Kind::kOther) CountKind(kind, -Count(bytes));
      return false;
    }
  } while (!live_.compare_exchange_weak(live, live + Count(bytes)));
  Compare(live + Count(bytes));
  return true;
}

void Ledger::Take(Bytes bytes, Kind kind) {
  if (kind != Kind::kOther) CountKind(kind, Count(bytes));
  Compare(live_.fetch_add(Count(bytes)) + Count(bytes));
}

void Ledger::Give(Bytes bytes, Kind kind) {
  live_.fetch_sub(Count(bytes));
  if (kind != Kind::kOther) CountKind(kind, -Count(bytes));
}

void Ledger::Enter(const void* block, Bytes bytes, Kind kind) {
  std::lock_guard lock(mutex_);
  Entry& entry = blocks_[block] = {.bytes = bytes, .kind = kind};
  if (const Observer* const observer = observer_) {
    entry.number = observer->on_enter(block, bytes, kind, live());
  }
}

Ledger::Entry Ledger::Leave(const void* block) {
  std::lock_guard lock(mutex_);
  const auto it = blocks_.find(block);
  if (it == blocks_.end()) return {};
  const Entry entry = it->second;
  blocks_.erase(it);
  return entry;
}

void Ledger::Give(const Entry& entry) {
  Give(entry.bytes, entry.kind);
  if (entry.number < 0) return;
  if (const Observer* const observer = observer_) {
    observer->on_give(entry.number, entry.bytes, live());
  }
}

Bytes Ledger::OnFree(const void* block) {
  const Entry entry = Leave(block);
  if (entry.bytes == Bytes{0}) return Bytes{0};
  Give(entry);
  return entry.bytes;
}

bool Ledger::Retag(const void* block, Kind kind) {
  std::lock_guard lock(mutex_);
  const auto it = blocks_.find(block);
  if (it == blocks_.end()) return false;
  Entry& entry = it->second;
  if (entry.kind == kind) return true;
  if (kind != Kind::kOther) CountKind(kind, Count(entry.bytes));
  if (entry.kind != Kind::kOther) CountKind(entry.kind, -Count(entry.bytes));
  const bool was_left_out = LeftOut(entry.kind);
  entry.kind = kind;
  if (const Observer* const observer = observer_;
      observer != nullptr && entry.number >= 0) {
    observer->on_retag(entry.number, kind, live());
  }
  if (was_left_out == LeftOut(kind)) return true;
  if (LeftOut(kind)) {
    joined_ += Count(entry.bytes);
    entry.joined_in = window_;
  } else {
    if (entry.joined_in == window_) joined_ -= Count(entry.bytes);
    Compare(live_);
  }
  return true;
}

std::vector<Ledger::Block> Ledger::Largest(size_t most) const {
  std::vector<Block> largest;
  {
    std::lock_guard lock(mutex_);
    largest.reserve(blocks_.size());
    for (const auto& [address, entry] : blocks_) {
      largest.push_back({address, entry.bytes, entry.kind});
    }
  }
  const auto end = largest.begin() + std::min(most, largest.size());
  std::partial_sort(
      largest.begin(), end, largest.end(), [](const Block& a, const Block& b) {
        return std::tie(b.bytes, a.address) < std::tie(a.bytes, b.address);
      });
  largest.erase(end, largest.end());
  return largest;
}

void Ledger::SetObserver(const Observer* observer) {
  if (observer == nullptr) {
    observer_ = nullptr;
    return;
  }
  std::lock_guard lock(mutex_);
  observer_ = observer;
  for (auto& [address, entry] : blocks_) {
    entry.number = observer->on_enter(address, entry.bytes, entry.kind, live());
  }
}

Ledger::Entry Ledger::EntryOf(const void* block) const {
  std::lock_guard lock(mutex_);
  const auto it = blocks_.find(block);
  return it == blocks_.end() ? Entry() : it->second;
}

BytesByKind Ledger::LiveByKind() const {
  BytesByKind live{};
  Bytes rest = this->live();
  for (int kind = 0; kind < kKinds; ++kind) {
    live[kind] = Bytes{by_kind_[kind].load()};
    rest -= live[kind];
  }
  live[static_cast<int>(Kind::kOther)] = std::max(rest, Bytes{0});
  return live;
}

void Ledger::ResetPeak() {
  step_peak_ = 0;
  BeginWindow();
}

// Zero first, then the present value: an allocation in between either sees the
// zero and raises the peak itself, or is in the value read.
void Ledger::BeginWindow() {
  ++window_;
  joined_ = 0;
  window_peak_other_ = 0;
  Compare(live_);
}

void Ledger::Compare(int64_t live) {
  if (live > step_peak_) {
    Raise(run_peak_, live);
    Raise(step_peak_, live);
  }
  const int64_t other = live - left_out_ + joined_;
  if (other > window_peak_other_) Raise(window_peak_other_, other);
}

void Ledger::CountKind(Kind kind, int64_t change) {
  by_kind_[static_cast<int>(kind)] += change;
  if (LeftOut(kind)) left_out_ += change;
}

}  // namespace ebbtide
