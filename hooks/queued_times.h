// Times of ops and backward ops on a device whose work is queued: marks are put
// around each in its stream, and read when the times are needed or the step is
// over. Until then the tape has the time that the host took.
//
// Under the runtime's lock.
#ifndef EBBTIDE_HOOKS_QUEUED_TIMES_H_
#define EBBTIDE_HOOKS_QUEUED_TIMES_H_

#include <deque>
#include <memory>

#include "hooks/device.h"
#include "hooks/tape.h"

namespace ebbtide {

class QueuedTimes {
 public:
  enum class What { kOp, kStage };

  // Starts again with another tape. Times of work that has not run by now stay
  // as they are.
  void Restart(Tape* tape, int device);

  // Marks the work queued between the two calls on the current stream of the
  // caller as the op or backward op with that index, whose name has that number
  // in the trace. A second Begin replaces the first. False if its times cannot
  // be known.
  void Begin();
  bool End(What what, int index, int name);

  // Takes over the times of what has run. Finish waits for all of it.
  void Poll() { Take(/*wait=*/false); }
  void Finish();

 private:
  struct Span {
    What what = What::kOp;
    int index = 0;
    std::shared_ptr<const TimeMark> begin;
    std::shared_ptr<const TimeMark> end;
  };
  void Take(bool wait);

  Tape* tape_ = nullptr;
  int device_ = 0;
  std::shared_ptr<const TimeMark> begin_;
  std::deque<Span> spans_;  // in the order of their ends
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_QUEUED_TIMES_H_
