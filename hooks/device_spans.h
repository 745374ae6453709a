// Spans of the trace on a device whose work is queued: where the device did the
// work, not where the host asked for it. They are written once it is done.
//
// Under the runtime's lock.
#ifndef EBBTIDE_HOOKS_DEVICE_SPANS_H_
#define EBBTIDE_HOOKS_DEVICE_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/strings/string_view.h"
#include "hooks/device.h"
#include "profiler/trace.h"

namespace ebbtide {

class DeviceSpans {
 public:
  static DeviceSpans& Global();

  // Records `span` with the times of the work between two marks of that device.
  void Add(const Span& span, int device, std::shared_ptr<const TimeMark> begin,
           std::shared_ptr<const TimeMark> end);
  // Writes those whose work has been done. Never blocks.
  void Poll();

 private:
  struct Pending {
    Span span;
    int device = 0;
    std::shared_ptr<const TimeMark> begin;
    std::shared_ptr<const TimeMark> end;
  };
  std::deque<Pending> pending_;  // in the order of their ends
};

// Span of the work queued on the current stream of the device during its scope,
// or of the host's work if the device does not queue.
class QueuedSpan {
 public:
  QueuedSpan(SpanKind kind, absl::string_view what, size_t bytes, int64_t value,
             int device);
  ~QueuedSpan();
  QueuedSpan(const QueuedSpan&) = delete;
  QueuedSpan& operator=(const QueuedSpan&) = delete;

 private:
  Span span_;  // its name is kNoName where there is no trace
  const int device_;
  std::shared_ptr<const TimeMark> begin_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_DEVICE_SPANS_H_
