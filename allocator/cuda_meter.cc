#include "allocator/cuda_meter.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ebbtide {
namespace {

// More than the copies that are ever in flight; beyond it none is timed.
constexpr size_t kMostSpans = 64;

// Measured copies that one still running the other way may have met.
constexpr size_t kMostRecent = 32;

// Shares of a copy's time beside another that count as none and as all of it.
constexpr double kAlone = 0.1;
constexpr double kContended = 0.9;

constexpr double kMillisecond = 1e-3;

CopyWay Other(CopyWay way) {
  return way == CopyWay::kOut ? CopyWay::kBack : CopyWay::kOut;
}

}  // namespace

CudaMeter::CudaMeter(std::shared_ptr<CudaEvents> events)
    : events_(std::move(events)), api_(events_->api()) {}

std::optional<CudaMeter::Span> CudaMeter::Begin(CopyWay way, Bytes size,
                                                cudaStream_t stream) {
  Lane& lane = LaneOf(way);
  const bool only = lane.open.fetch_add(1) == 0;
  const int64_t turn = ++lane.turns;
  if (!only || size < kLeast) return std::nullopt;
  auto begin = events_->Take(CudaEvent::Use::kTiming);
  auto end = events_->Take(CudaEvent::Use::kTiming);
  if (!begin.ok() || !end.ok() || !begin->Record(stream).ok()) {
    return std::nullopt;
  }
  return Span{.size = size,
              .begin = std::make_shared<CudaEvent>(*std::move(begin)),
              .end = std::make_shared<CudaEvent>(*std::move(end)),
              .turn = turn};
}

void CudaMeter::End(CopyWay way, std::optional<Span> span, cudaStream_t stream,
                    bool good) {
  Lane& lane = LaneOf(way);
  const bool mixed = span && lane.turns != span->turn;
  if (span && good && !mixed && span->end->Record(stream).ok()) {
    std::lock_guard lock(mutex_);
    if (lane.arrived.size() < kMostSpans) {
      lane.arrived.push_back(*std::move(span));
    }
  }
  --lane.open;
}

void CudaMeter::Poll() {
  if (polling_.exchange(true, std::memory_order_acquire)) return;
  Collect();
  while (Measure(CopyWay::kOut) || Measure(CopyWay::kBack)) {
  }
  polling_.store(false, std::memory_order_release);
}

void CudaMeter::Collect() {
  std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) {
    while (!lane.arrived.empty() && lane.spans.size() < kMostSpans) {
      lane.spans.push_back(std::move(lane.arrived.front()));
      lane.arrived.pop_front();
    }
  }
}

// Takes the lane's oldest span if it has ended; whether there may be another.
bool CudaMeter::Measure(CopyWay way) {
  Lane& lane = LaneOf(way);
  if (lane.spans.empty()) return false;
  Span& span = lane.spans.front();
  if (!Look(span)) {
    lane.spans.pop_front();
    return true;
  }
  if (!span.ended) return false;
  const Interval interval = {*span.began, *span.ended};
  const double seconds = interval.end - interval.begin;
  const double share = SharedWithOther(way, interval) / seconds;
  const double bytes = static_cast<double>(Count(span.size));
  if (seconds > 0 && share >= kContended) lane.contended.Add(bytes, seconds);
  if (seconds > 0 && share <= kAlone) lane.alone.Add(bytes, seconds);
  lane.recent.push_back(interval);
  if (lane.recent.size() > kMostRecent) lane.recent.pop_front();
  lane.spans.pop_front();
  return true;
}

// Seconds of the interval in which the other lane was copying.
double CudaMeter::SharedWithOther(CopyWay way, Interval interval) {
  double seconds = 0;
  const auto add = [&](double begin, double end) {
    seconds += std::max(
        0.0, std::min(end, interval.end) - std::max(begin, interval.begin));
  };
  Lane& other = LaneOf(Other(way));
  for (const Interval& past : other.recent) add(past.begin, past.end);
  for (Span& span : other.spans) {
    // What has not begun by now began after the interval, and so did what is
    // behind it.
    if (!Look(span) || !span.began) break;
    add(*span.began,
        span.ended.value_or(std::numeric_limits<double>::infinity()));
  }
  return seconds;
}

// Finds out what can be known by now. False: never any more.
bool CudaMeter::Look(Span& span) {
  if (!span.began) {
    const CudaEvent& from = anchor_ == nullptr ? *span.begin : *anchor_;
    if (!LookAt(*span.begin, from, anchor_at_, &span.began)) return false;
    if (!span.began) return true;
    anchor_ = span.begin;
    anchor_at_ = *span.began;
  }
  return span.ended || LookAt(*span.end, *span.begin, *span.began, &span.ended);
}

// `from` has happened if `event` has.
bool CudaMeter::LookAt(const CudaEvent& event, const CudaEvent& from,
                       double from_at, std::optional<double>* when) {
  const cudaError_t result = event.Query();
  if (result == cudaErrorNotReady) return true;
  if (result != cudaSuccess) return false;
  float milliseconds = 0;
  const absl::Status known = CudaStatus(
      api_, api_.event_elapsed_time(&milliseconds, from.get(), event.get()),
      "cudaEventElapsedTime");
  if (!known.ok()) return false;
  *when = from_at + milliseconds * kMillisecond;
  return true;
}

double CudaMeter::Bandwidth(CopyWay way) const {
  return LaneOf(way).alone.per_second();
}

double CudaMeter::ContendedBandwidth(CopyWay way) const {
  return LaneOf(way).contended.per_second();
}

}  // namespace ebbtide
