// A curve of bounded length: of each group of events that follow each other the
// first, the highest and the last.
#ifndef EBBTIDE_PROFILER_THINNED_CURVE_H_
#define EBBTIDE_PROFILER_THINNED_CURVE_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "planner/units.h"
#include "profiler/block_books.h"
#include "profiler/kind.h"

namespace ebbtide {

// The causes by which live bytes are stacked: the kinds, of which kOther is
// divided.
inline constexpr int kWorkspace = kKinds;  // allocated by ops, for a while
inline constexpr int kCauses = kKinds + 1;
using BytesByCause = std::array<Bytes, kCauses>;

// The name of a cause, as KindName.
constexpr const char* CauseName(int cause) {
  return cause == kWorkspace ? "workspace" : KindName(static_cast<Kind>(cause));
}

constexpr int CauseOf(Kind kind, int name) {
  const bool is_workspace = kind == Kind::kOther && name >= 0;
  return is_workspace ? kWorkspace : static_cast<int>(kind);
}

inline BytesByCause CausesOf(const BytesByKind& live, Bytes workspace) {
  BytesByCause causes{};
  std::copy(live.begin(), live.end(), causes.begin());
  causes[static_cast<int>(Kind::kOther)] -= workspace;
  causes[kWorkspace] = workspace;
  return causes;
}

struct TimelinePoint {
  int64_t time = 0;
  int64_t event = 0;
  BytesByCause live{};
  bool operator==(const TimelinePoint&) const = default;
};

class ThinnedCurve {
 public:
  using Out = absl::FunctionRef<void(const TimelinePoint&)>;

  // `events` in groups, about `points` points in all, but every event of
  // [detail_begin, detail_end).
  ThinnedCurve(int64_t events, int points, int64_t detail_begin = 0,
               int64_t detail_end = 0)
      : group_(std::max<int64_t>(1, 3 * events / points)),
        detail_begin_(detail_begin),
        detail_end_(detail_end) {}

  // In the order of the events.
  void Add(const TimelinePoint& point, Out out) {
    const bool is_detail =
        point.event >= detail_begin_ && point.event < detail_end_;
    if (is_detail || point.event / group_ != number_) Flush(out);
    if (is_detail || group_ == 1) return out(point);
    const Bytes total = SumOf(point);
    if (in_group_++ == 0) {
      number_ = point.event / group_;
      first_ = highest_ = point;
      most_ = total;
    } else if (total > most_) {
      highest_ = point;
      most_ = total;
    }
    last_ = point;
  }
  // After the last.
  void Flush(Out out) {
    if (in_group_ == 0) return;
    in_group_ = 0;
    out(first_);
    if (highest_.event != first_.event) out(highest_);
    if (last_.event > highest_.event) out(last_);
  }

 private:
  static Bytes SumOf(const TimelinePoint& point) {
    Bytes sum{};
    for (const Bytes each : point.live) sum += each;
    return sum;
  }

  const int64_t group_;
  const int64_t detail_begin_;
  const int64_t detail_end_;
  int64_t in_group_ = 0;
  int64_t number_ = -1;
  TimelinePoint first_;
  TimelinePoint highest_;
  TimelinePoint last_;
  Bytes most_{};
};

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_THINNED_CURVE_H_
