// A thread that runs copies between two tiers in the order they were submitted.
// One lane per direction: D2H writes to the slower tier, H2D reads from it.
//
// The thread starts with the first copy and takes no signals. It is detached
// and owns what it uses, so a lane that is leaked (as that of a process is)
// never delays the process's exit. It does not survive fork: in a child every
// call that would have to wait fails instead.
//
// Thread-safe. No call may be made from a copy or a callback of the same lane,
// except state().
#ifndef EBBTIDE_ALLOCATOR_TRANSFER_LANE_H_
#define EBBTIDE_ALLOCATOR_TRANSFER_LANE_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/units.h"

namespace ebbtide {

namespace internal {
struct LaneCore;
}

// One copy. Kept alive by the lane until it has ended.
class Transfer {
 public:
  enum class State { kQueued, kRunning, kDone, kFailed, kWithdrawn };

  // Never blocks. Moves on after the callback has returned.
  State state() const { return state_.load(std::memory_order_acquire); }
  Bytes bytes() const { return bytes_; }

  // Blocks until the callback has returned. Returns the copy's result;
  // Cancelled if it was withdrawn; FailedPrecondition in a child of fork if it
  // had not ended by then.
  absl::Status Wait();

  // Withdraws it if it is still queued: true, and neither copy nor callback
  // will run.
  bool Cancel();

 private:
  friend class TransferLane;
  friend struct internal::LaneCore;
  using Copy = absl::AnyInvocable<absl::Status()>;
  using Callback = absl::AnyInvocable<void(const absl::Status&)>;

  Transfer(std::shared_ptr<internal::LaneCore> core, Bytes bytes, Copy copy,
           Callback callback);
  void End(State state, absl::Status status);

  const std::shared_ptr<internal::LaneCore> core_;
  const Bytes bytes_;
  Copy copy_;
  Callback callback_;
  absl::Status status_;  // written before `state_` ends
  std::atomic<State> state_ = State::kQueued;
};

class TransferLane {
 public:
  // `name` is the thread's (at most 15 characters). At most `in_flight` bytes
  // are queued or running, or one transfer if that alone is larger.
  TransferLane(std::string name, Bytes in_flight);
  // Runs what is queued, then ends the thread.
  ~TransferLane();
  TransferLane(const TransferLane&) = delete;
  TransferLane& operator=(const TransferLane&) = delete;

  // Blocks while too many bytes are in flight. `copy` runs on the lane's
  // thread, then `callback` with its result, no lock held; both are destroyed
  // there (or by Cancel), so they must not own what another thread has to
  // release. Exceptions become Internal. `callback` may be empty. Errors:
  // ResourceExhausted if no thread can be had, FailedPrecondition in a child of
  // fork; nothing is queued then.
  absl::StatusOr<std::shared_ptr<Transfer>> Submit(
      Bytes bytes, absl::AnyInvocable<absl::Status()> copy,
      absl::AnyInvocable<void(const absl::Status&)> callback = {});

  Bytes in_flight() const;

  // Bytes per second of recent copies, larger ones counting more: those that
  // had both lanes to themselves, and those that ran beside a copy of the other
  // lane. 0 until there was one.
  double Bandwidth() const;
  double ContendedBandwidth() const;
  // Bandwidth of all of them, as they came.
  double RecentBandwidth() const;

  // Makes two lanes each other's "other lane"; before the first Submit.
  static void Pair(TransferLane& a, TransferLane& b);

 private:
  const std::shared_ptr<internal::LaneCore> core_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TRANSFER_LANE_H_
