// The stays of values on the device, and copies, as the validator follows them.
// Private to planner/validate.cc, which shares no code with others.
#ifndef EBBTIDE_PLANNER_VALIDATE_STAY_H_
#define EBBTIDE_PLANNER_VALIDATE_STAY_H_

#include <limits>
#include <map>

#include "planner/units.h"

namespace ebbtide {

// One stretch of a value's presence on the device, in positions of the action
// list: readable by actions in (first, last].
struct Stay {
  int first = 0;
  int last = 0;
  bool counted = true;
  bool original = false;   // made by the forward op, not recomputed or restored
  int end_action = -1;     // the free or offload that ends it; -1: none
  bool offloaded = false;  // ends by an offload
  bool restored = false;   // began by a restore
  Time ready = 0;          // timing: when it may be read
  Time gone = std::numeric_limits<Time>::infinity();  // timing: end of the
                                                      // offload's copy
};

// Copies that run, by their end.
class Copies {
 public:
  void Add(Time end, Bytes bytes) { ends_.emplace(end, bytes); }
  bool empty() const { return ends_.empty(); }
  Time next() const { return ends_.begin()->first; }
  // Removes those that have ended, and their bytes from `sum`.
  void Drain(Time time, Bytes* sum) {
    while (!empty() && next() <= time) {
      *sum -= ends_.begin()->second;
      ends_.erase(ends_.begin());
    }
  }

 private:
  std::multimap<Time, Bytes> ends_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_VALIDATE_STAY_H_
