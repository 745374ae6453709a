#include "hooks/queued_times.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hooks/device_spans.h"
#include "hooks/run_log.h"

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

bool QueuedTimes::End(What what, int index, int name) {
  if (begin_ == nullptr) return false;
  const auto end = Device::Get().MarkTime(device_);
  if (end == nullptr) return false;
  if (name != RunLog::kNoName) {
    const SpanKind kind =
        what == What::kOp ? SpanKind::kForward : SpanKind::kBackward;
    DeviceSpans::Global().Add({.kind = kind, .name = name}, device_, begin_,
                              end);
  }
  spans_.push_back({what, index, std::move(begin_), end});
  return true;
}

// It waits for the last one first, which is once for all of a stream.
void QueuedTimes::Finish() {
  if (spans_.empty()) return;
  const Span& last = spans_.back();
  Device::Get().NanosecondsBetween(*last.begin, *last.end, /*wait=*/true);
  Take(/*wait=*/true);
}

void QueuedTimes::Take(bool wait) {
  while (!spans_.empty()) {
    const Span& span = spans_.front();
    const std::optional<double> nanoseconds =
        Device::Get().NanosecondsBetween(*span.begin, *span.end, wait);
    if (!nanoseconds) {
      if (!wait) return;  // the others come after it
    } else {
      const double known = std::max(1.0, *nanoseconds);
      if (span.what == What::kOp) {
        tape_->ops[span.index].NoteTime(known);
      } else {
        tape_->stages[span.index].NoteTime(known);
      }
    }
    spans_.pop_front();
  }
}

}  // namespace ebbtide
