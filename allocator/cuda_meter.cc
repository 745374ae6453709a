#include "allocator/cuda_meter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "profiler/clock.h"

namespace ebbtide {
namespace {

// More than the copies that are ever in flight; beyond it none is timed.
constexpr size_t kMostSpans = 64;

// Measured copies that one still running the other way may have met.
constexpr size_t kMostRecent = 32;

// Shares of a copy's time beside another that count as none and as all of it.
constexpr double kAlone = 0.1;
constexpr double kContended = 0.9;

}  // namespace

CudaMeter::CudaMeter(std::shared_ptr<CudaEvents> events, CopyObserver observer)
    : events_(std::move(events)),
      observer_(std::move(observer)),
      clock_(observer_.clock != nullptr ? observer_.clock
                                        : std::make_shared<CudaClock>()) {}

std::optional<CudaMeter::Span> CudaMeter::Begin(CopyWay way, Bytes size,
                                                CopyLabel label,
                                                cudaStream_t stream) {
  Lane& lane = LaneOf(way);
  const bool only = lane.open.fetch_add(1) == 0;
  const int64_t turn = ++lane.turns;
  const bool is_wanted =
      observer_.on_copy != nullptr || (is_on_ && size >= kLeast);
  if (!only || !is_wanted) return std::nullopt;
  auto begin = events_->Take(CudaEvent::Use::kTiming);
  auto end = events_->Take(CudaEvent::Use::kTiming);
  if (!begin.ok() || !end.ok() || !begin->Record(stream).ok()) {
    return std::nullopt;
  }
  return Span{.size = size,
              .label = label,
              .begin = std::make_shared<CudaEvent>(*std::move(begin)),
              .end = std::make_shared<CudaEvent>(*std::move(end)),
              .turn = turn};
}

void CudaMeter::End(CopyWay way, std::optional<Span> span, cudaStream_t stream,
                    bool good) {
  Lane& lane = LaneOf(way);
  const bool mixed = span && lane.turns != span->turn;
  if (span) span->asked = NowNanos();
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
  AddRate(way, span.size, interval);
  lane.recent.push_back(interval);
  if (lane.recent.size() > kMostRecent) lane.recent.pop_front();
  if (observer_.on_copy != nullptr) Tell(way, span);
  lane.spans.pop_front();
  return true;
}

void CudaMeter::AddRate(CopyWay way, Bytes size, Interval interval) {
  const double seconds = interval.end - interval.begin;
  if (size < kLeast || seconds <= 0) return;
  const double share = SharedWithOther(way, interval) / seconds;
  const double bytes = static_cast<double>(Count(size));
  Lane& lane = LaneOf(way);
  if (share >= kContended) lane.contended.Add(bytes, seconds);
  if (share <= kAlone) lane.alone.Add(bytes, seconds);
}

void CudaMeter::Tell(CopyWay way, const Span& span) {
  const HostTimes when =
      clock_->HostTimesOf(*span.began, *span.ended, span.asked);
  observer_.on_copy({.way = way,
                     .label = span.label,
                     .size = span.size,
                     .begin = when.begin,
                     .end = when.end});
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
    // This span, and those behind it, began after the interval.
    if (!Look(span) || !span.began) break;
    add(*span.began,
        span.ended.value_or(std::numeric_limits<double>::infinity()));
  }
  return seconds;
}

// Finds out what can be known by now. False: never any more.
bool CudaMeter::Look(Span& span) {
  if (!span.began) {
    const auto began = clock_->SecondsOf(span.begin);
    if (!began.ok()) return false;
    span.began = *began;
  }
  if (span.began && !span.ended) {
    const auto ended = clock_->SecondsOf(span.end);
    if (!ended.ok()) return false;
    span.ended = *ended;
  }
  return true;
}

}  // namespace ebbtide
