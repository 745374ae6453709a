#include "profiler/timeline_lanes.h"

namespace ebbtide {

bool LaneMaker::Joins(const LaneSpan& last, const Span& span) const {
  if (last.begin >= span.begin) return true;
  if (last.end > detail_begin_ && span.begin < detail_end_) return false;
  return span.begin < last.end ||
         (span.begin - last.end < gap_ && span.end - span.begin < gap_);
}

void LaneMaker::Add(const Span& span) {
  LaneSpan joined = {.begin = span.begin,
                     .end = span.end,
                     .name = span.name,
                     .count = 1,
                     .bytes = span.bytes,
                     .value = span.value};
  int64_t longest = span.end - span.begin;
  while (!lane_.empty() && Joins(lane_.back(), span)) {
    const LaneSpan& last = lane_.back();
    if (longest_.back() > longest) {
      joined.name = last.name;
      joined.value = last.value;
      longest = longest_.back();
    }
    joined.begin = std::min(joined.begin, last.begin);
    joined.end = std::max(joined.end, last.end);
    joined.count += last.count;
    joined.bytes += last.bytes;
    lane_.pop_back();
    longest_.pop_back();
    // Only what lies inside the span goes on.
    if (joined.begin < span.begin) break;
  }
  lane_.push_back(joined);
  longest_.push_back(longest);
}

}  // namespace ebbtide
