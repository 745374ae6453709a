// What a step of one signature usually takes, part by part: the median of its
// last recorded pairs. The least of several would be less than any step takes,
// once summed over a thousand ops.
#ifndef EBBTIDE_HOOKS_TYPICAL_TIMES_H_
#define EBBTIDE_HOOKS_TYPICAL_TIMES_H_

#include <deque>
#include <vector>

#include "hooks/tape.h"

namespace ebbtide {

class TypicalTimes {
 public:
  // What the ops and stages of `tape` took, and the step from its begin to the
  // next one's, in nanoseconds. A tape of another length begins anew.
  void Add(const Tape& tape, double step);
  // Puts medians in the place of what was measured. The tape is as long as the
  // last that was added.
  void PutInto(Tape* tape) const;
  double step() const;
  int pairs() const { return pairs_; }  // that were added, in all

 private:
  using Times = std::vector<float>;  // of ops, then of stages, then the step
  double Median(size_t part) const;

  std::deque<Times> last_;
  int pairs_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_TYPICAL_TIMES_H_
