// The last steps of a run, by their number in it, from 0.
//
// A step is one forward/backward pair with all that follows it until the next
// one begins. It counts once its backward pass is over, or the next pair has
// begun: a program that calls backward 12 times has made 12 steps, and one that
// dies in the forward or backward pass of the next has made 12, too. The time
// while PyTorch saves its tensors itself (State::kIdle) is one step if the
// runtime wakes, and none if it does not. The closing line, the report,
// progress and traces all count so; a step that a trace only begins is not
// over.
#ifndef EBBTIDE_HOOKS_STEP_LOG_H_
#define EBBTIDE_HOOKS_STEP_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "planner/units.h"

namespace ebbtide {

// From one pair to the next.
struct Step {
  double seconds = 0;  // by the device's clock where it queues work
  Bytes peak{};        // live bytes
  int plan = -1;       // number in the report of the plan followed to its end;
                       // -1: none
  // Seconds that were foreseen when it began to follow the plan; 0: none was.
  double foreseen = 0;
};

// Not thread-safe.
class StepLog {
 public:
  static constexpr size_t kMost = 1 << 16;

  // The first one is forgotten where there are too many.
  void Add(const Step& step) {
    ++count_;
    steps_.push_back(step);
    if (steps_.size() > kMost) steps_.pop_front();
  }
  // Number of steps in the whole run.
  int64_t count() const { return count_; }
  // The number of the first one that is known, and those from it on.
  int64_t first() const { return count_ - static_cast<int64_t>(steps_.size()); }
  const std::deque<Step>& known() const { return steps_; }
  Step& last() { return steps_.back(); }
  // nullptr where it is not known any more.
  Step* Find(int64_t number) {
    return number < first() || number >= count_ ? nullptr
                                                : &steps_[number - first()];
  }

 private:
  std::deque<Step> steps_;
  int64_t count_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_STEP_LOG_H_
