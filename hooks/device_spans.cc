#include "hooks/device_spans.h"

#include <utility>

#include "hooks/run_log.h"
#include "profiler/clock.h"

namespace ebbtide {

DeviceSpans& DeviceSpans::Global() {
  static DeviceSpans& spans = *new DeviceSpans;
  return spans;
}

void DeviceSpans::Add(const Span& span, int device,
                      std::shared_ptr<const TimeMark> begin,
                      std::shared_ptr<const TimeMark> end) {
  if (!RunLog::Global().IsOpen()) return;
  pending_.push_back({span, device, std::move(begin), std::move(end)});
  Poll();
}

void DeviceSpans::Poll() {
  if (!RunLog::Global().IsOpen()) return;
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    const auto when =
        Device::Get().HostTimesBetween(oldest.device, oldest.begin, oldest.end);
    if (when.ok() && !*when) return;  // the others come after it
    if (when.ok()) {
      oldest.span.begin = (*when)->begin;
      oldest.span.end = (*when)->end;
      RunLog::Global().AddSpan(oldest.span);
    }
    pending_.pop_front();
  }
}

QueuedSpan::QueuedSpan(SpanKind kind, absl::string_view what, size_t bytes,
                       int64_t value, int device)
    : span_{.kind = kind,
            .name = RunLog::Global().Number(what),
            .bytes = Bytes{static_cast<int64_t>(bytes)},
            .value = value},
      device_(device) {
  if (span_.name == RunLog::kNoName) return;
  span_.begin = NowNanos();
  begin_ = Device::Get().MarkTime(device_);
}

QueuedSpan::~QueuedSpan() {
  if (span_.name == RunLog::kNoName) return;
  auto end = begin_ == nullptr ? nullptr : Device::Get().MarkTime(device_);
  if (end == nullptr) {
    span_.end = NowNanos();
    RunLog::Global().AddSpan(span_);
  } else {
    DeviceSpans::Global().Add(span_, device_, std::move(begin_),
                              std::move(end));
  }
}

}  // namespace ebbtide
