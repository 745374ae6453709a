// Lanes of bounded length: spans too close to be distinguished become one.
#ifndef EBBTIDE_PROFILER_TIMELINE_LANES_H_
#define EBBTIDE_PROFILER_TIMELINE_LANES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/timeline.h"

namespace ebbtide {

class LaneMaker {
 public:
  // Spans of which less than `gap` lies between are drawn as one, unless they
  // are longer themselves, so that they can be pointed at; none of what touches
  // [detail_begin, detail_end).
  LaneMaker(int64_t gap, int64_t detail_begin, int64_t detail_end)
      : gap_(gap), detail_begin_(detail_begin), detail_end_(detail_end) {}

  // Spans come in the order of their ends; those inside of `span` are part of
  // it.
  void Add(const Span& span);

  // By begin.
  std::vector<LaneSpan> Take() && {
    std::stable_sort(
        lane_.begin(), lane_.end(),
        [](const LaneSpan& a, const LaneSpan& b) { return a.begin < b.begin; });
    return std::move(lane_);
  }

 private:
  bool Joins(const LaneSpan& last, const Span& span) const;

  const int64_t gap_;
  const int64_t detail_begin_;
  const int64_t detail_end_;
  std::vector<LaneSpan> lane_;
  std::vector<int64_t> longest_;  // by lane span
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_TIMELINE_LANES_H_
