#include "allocator/transfer_lane.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/rate.h"
#include "profiler/detached_thread.h"

namespace ebbtide {
namespace {

absl::Status Guarded(absl::AnyInvocable<absl::Status()>& copy) {
  try {
    return copy();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("a copy threw: ", e.what()));
  } catch (...) {
    return absl::InternalError("a copy threw");
  }
}

}  // namespace

namespace internal {

// State shared by the lane, its thread and its transfers.
struct LaneCore {
  LaneCore(std::string name, Bytes limit)
      : name(std::move(name)), limit(limit) {}

  // The lane's mutex may have been held when the process forked, so a child
  // must not touch it.
  bool InChild() const { return getpid() != process; }
  void Loop();
  void Run(Transfer& transfer);

  const std::string name;
  const Bytes limit;
  const pid_t process = getpid();

  std::mutex mutex;
  std::condition_variable work;     // for the thread
  std::condition_variable changed;  // for all other threads
  std::deque<std::shared_ptr<Transfer>> queue;
  Bytes in_flight{};
  bool running = false;  // there is a thread
  bool stop = false;

  std::shared_ptr<std::atomic<bool>> busy =
      std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<bool>> other_busy =
      std::make_shared<std::atomic<bool>>(false);
  Rate alone;
  Rate contended;
  Rate recent;
};

void LaneCore::Loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    work.wait(lock, [&] { return stop || !queue.empty(); });
    if (queue.empty()) break;
    const std::shared_ptr<Transfer> transfer = std::move(queue.front());
    queue.pop_front();
    transfer->state_ = Transfer::State::kRunning;
    lock.unlock();
    Run(*transfer);
    lock.lock();
    in_flight -= transfer->bytes_;
    transfer->End(transfer->status_.ok() ? Transfer::State::kDone
                                         : Transfer::State::kFailed,
                  transfer->status_);
    changed.notify_all();
  }
  running = false;
  changed.notify_all();
}

void LaneCore::Run(Transfer& transfer) {
  using Clock = std::chrono::steady_clock;
  *busy = true;
  const bool other_before = *other_busy;
  const Clock::time_point begin = Clock::now();
  transfer.status_ = Guarded(transfer.copy_);
  const std::chrono::duration<double> took = Clock::now() - begin;
  const bool other_after = *other_busy;
  *busy = false;
  if (transfer.status_.ok()) {
    const double bytes = Count(transfer.bytes_);
    const double seconds = std::max(took.count(), 1e-9);
    recent.Add(bytes, seconds);
    if (other_before == other_after) {
      (other_before ? contended : alone).Add(bytes, seconds);
    }
  }
  if (transfer.callback_) {
    try {
      transfer.callback_(transfer.status_);
    } catch (...) {
      transfer.status_ = absl::InternalError("a transfer's callback threw");
    }
  }
  transfer.copy_ = nullptr;
  transfer.callback_ = nullptr;
}

}  // namespace internal

Transfer::Transfer(std::shared_ptr<internal::LaneCore> core, Bytes bytes,
                   Copy copy, Callback callback)
    : core_(std::move(core)),
      bytes_(bytes),
      copy_(std::move(copy)),
      callback_(std::move(callback)) {}

void Transfer::End(State state, absl::Status status) {
  status_ = std::move(status);
  state_.store(state, std::memory_order_release);
}

absl::Status Transfer::Wait() {
  const auto ended = [this] {
    const State now = state();
    return now != State::kQueued && now != State::kRunning;
  };
  if (!ended()) {
    if (core_->InChild()) {
      return absl::FailedPreconditionError(absl::StrCat(
          core_->name, ": this transfer is left to the parent process"));
    }
    std::unique_lock lock(core_->mutex);
    core_->changed.wait(lock, ended);
  }
  return status_;
}

bool Transfer::Cancel() {
  if (core_->InChild()) return false;
  // Destroyed after the lock is released: they may own anything.
  Copy copy;
  Callback callback;
  std::lock_guard lock(core_->mutex);
  if (state() != State::kQueued) return false;
  auto& queue = core_->queue;
  queue.erase(std::find_if(queue.begin(), queue.end(),
                           [this](const auto& t) { return t.get() == this; }));
  copy = std::move(copy_);
  callback = std::move(callback_);
  core_->in_flight -= bytes_;
  End(State::kWithdrawn, absl::CancelledError("the transfer was withdrawn"));
  core_->changed.notify_all();
  return true;
}

TransferLane::TransferLane(std::string name, Bytes in_flight)
    : core_(std::make_shared<internal::LaneCore>(std::move(name), in_flight)) {}

TransferLane::~TransferLane() {
  if (core_->InChild()) return;
  std::unique_lock lock(core_->mutex);
  core_->stop = true;
  core_->work.notify_all();
  core_->changed.wait(lock, [this] { return !core_->running; });
}

absl::StatusOr<std::shared_ptr<Transfer>> TransferLane::Submit(
    Bytes bytes, absl::AnyInvocable<absl::Status()> copy,
    absl::AnyInvocable<void(const absl::Status&)> callback) {
  if (core_->InChild()) {
    return absl::FailedPreconditionError(absl::StrCat(
        core_->name, ": the copy thread belongs to the parent process"));
  }
  std::shared_ptr<Transfer> transfer(
      new Transfer(core_, bytes, std::move(copy), std::move(callback)));
  std::unique_lock lock(core_->mutex);
  core_->changed.wait(lock, [&] {
    return core_->in_flight == Bytes{0} ||
           core_->in_flight + bytes <= core_->limit;
  });
  if (!core_->running) {
    core_->running =
        StartDetachedThread(core_->name, [core = core_] { core->Loop(); });
  }
  if (!core_->running) {
    return absl::ResourceExhaustedError(
        absl::StrCat(core_->name, ": the system refused a thread"));
  }
  core_->queue.push_back(transfer);
  core_->in_flight += bytes;
  core_->work.notify_one();
  return transfer;
}

Bytes TransferLane::in_flight() const {
  if (core_->InChild()) return Bytes{0};
  std::lock_guard lock(core_->mutex);
  return core_->in_flight;
}

double TransferLane::Bandwidth() const { return core_->alone.per_second(); }

double TransferLane::RecentBandwidth() const {
  return core_->recent.per_second();
}

double TransferLane::ContendedBandwidth() const {
  return core_->contended.per_second();
}

void TransferLane::Pair(TransferLane& a, TransferLane& b) {
  a.core_->other_busy = b.core_->busy;
  b.core_->other_busy = a.core_->busy;
}

}  // namespace ebbtide
