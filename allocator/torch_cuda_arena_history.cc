#include "allocator/torch_cuda_arena_history.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

using c10::CachingDeviceAllocator::RecordContext;
using TraceEntry = ArenaHistory::TraceEntry;

const char* NameOf(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    default:
      return "";
  }
}

}  // namespace

void ArenaHistory::Set(const Settings& settings) {
  std::lock_guard lock(mutex_);
  settings_ = settings;
  is_enabled_ = settings.is_enabled;
  if (!settings.is_enabled || settings.clear) entries_.clear();
}

ArenaHistory::Context ArenaHistory::ContextOfBlock() const {
  c10::CachingDeviceAllocator::CreateContextFn recorder = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (settings_.when >= RecordContext::STATE) recorder = settings_.recorder;
  }
  // It may take the interpreter's lock.
  return recorder == nullptr ? nullptr : recorder();
}

void ArenaHistory::Add(TraceEntry entry, Context context) {
  std::lock_guard lock(mutex_);
  const auto& skipped = settings_.skipped;
  if (std::find(skipped.begin(), skipped.end(), NameOf(entry.action_)) !=
      skipped.end()) {
    return;
  }
  const RecordContext least = entry.action_ == TraceEntry::ALLOC
                                  ? RecordContext::ALLOC
                                  : RecordContext::ALL;
  if (settings_.when >= least) entry.context_ = std::move(context);
  entries_.push_back(std::move(entry));
  if (entries_.size() > settings_.max_entries) entries_.pop_front();
}

std::vector<TraceEntry> ArenaHistory::Entries(c10::DeviceIndex device) const {
  std::lock_guard lock(mutex_);
  const auto nanoseconds = clock_.makeConverter();
  std::vector<TraceEntry> found;
  for (const TraceEntry& entry : entries_) {
    if (entry.device_ != device) continue;
    found.push_back(entry);
    found.back().time_.t_ = nanoseconds(entry.time_.approx_t_) / 1000;
  }
  return found;
}

}  // namespace ebbtide
