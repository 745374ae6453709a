#include "hooks/queued_times.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ebbtide {

void QueuedTimes::Restart(Tape* tape, int device) {
  tape_ = tape;
  device_ = device;
  begin_.reset();
  spans_.clear();
}

void QueuedTimes::Begin() {
  if (Device::Get().is_async()) begin_ = Device::Get().MarkTime(device_);
}

void QueuedTimes::End(What what, int index) {
  if (begin_ == nullptr) return;
  auto end = Device::Get().MarkTime(device_);
  if (end == nullptr) return;
  spans_.push_back({what, index, std::move(begin_), std::move(end)});
  Poll();
}

void QueuedTimes::Take(bool wait) {
  while (!spans_.empty()) {
    const Span& span = spans_.front();
    const std::optional<double> nanoseconds =
        Device::Get().NanosecondsBetween(*span.begin, *span.end, wait);
    if (!nanoseconds) {
      if (!wait) return;  // the others come after it
    } else {
      double& known = span.what == What::kOp
                          ? tape_->ops[span.index].nanoseconds
                          : tape_->stages[span.index].nanoseconds;
      known = std::max(1.0, *nanoseconds);
    }
    spans_.pop_front();
  }
}

}  // namespace ebbtide
