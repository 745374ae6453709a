// The spread of the times of one op over the steps in which it was measured.
#ifndef EBBTIDE_PLANNER_TIME_SPREAD_H_
#define EBBTIDE_PLANNER_TIME_SPREAD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "planner/units.h"

namespace ebbtide {

struct TimeSpread {
  int steps = 0;  // that are known; 0: nothing is, and the rest is 0
  Time median = 0;
  Time quartiles = 0;  // the distance between the two
  Time most = 0;
  friend bool operator==(const TimeSpread&, const TimeSpread&) = default;
};

// Spread of two ops that run one after the other, as if they were slow
// together.
TimeSpread Sum(const TimeSpread& a, const TimeSpread& b);

// The times of one op: the least of all, and how the last of them scatter.
class TimeSamples {
 public:
  static constexpr int kKept = 8;

  void Add(Time time);
  bool IsEmpty() const { return added_ == 0; }
  Time Least() const { return least_; }  // 0: none was added
  TimeSpread Spread() const;

 private:
  Time least_ = 0;
  int64_t added_ = 0;
  std::array<float, kKept> last_{};
};

// An op of a step. Equal keys: the same work, by what was asked for.
struct TimedOp {
  uint64_t key = 0;
  Time time = 0;
  TimeSpread spread;
};

// An op of the first steps that takes more than this times the median of its
// kind has waited for memory.
inline constexpr double kWaited = 1.5;

// Identical layers do the same work, so the times of each of them inform about
// all. Among ops of one key, those whose time is no further from the median
// time of the key than its own spread, or the median spread of the key, get
// that median time and that median spread; the others, which stand out, keep
// theirs. (Not the least of all: the more there are of one layer, the lower it
// would be.) An op that was measured less than three times gets the median time
// of its key where it took more than kWaited times that, and is left alone
// otherwise: in the first steps ops wait for memory.
void PoolTimes(std::vector<TimedOp>* ops);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_TIME_SPREAD_H_
