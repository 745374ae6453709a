// Streams and what is queued in them, on a virtual clock.
//
// An op gets its time when it is pushed: it starts when the host has reached
// it, its stream and everything it waits for are done, and its copy engine is
// free. When it moves its bytes is another matter, and up to the schedule: any
// order that respects streams and waits is one that a device might choose. The
// late schedule runs an op only when something waits for it, so that a missing
// wait shows.
//
// Every method is called with the simulator's lock held. Those that take it as
// `lock` may run ops: bytes move under the lock, host functions run with it
// released.
#ifndef EBBTIDE_TESTS_CUDASIM_QUEUE_H_
#define EBBTIDE_TESTS_CUDASIM_QUEUE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cudasim/order.h"

namespace cudasim {

using Lock = std::unique_lock<std::mutex>;
using Nanos = uint64_t;

enum class Schedule { kEager, kOnTime, kLate, kRace, kRandom };
enum class Engine { kNone, kToDevice, kToHost, kOnDevice };

struct Access {
  const void* begin;
  size_t size;
  bool write;
};

// A profiler's view of it; nothing of waits and host functions.
struct Activity {
  enum class Sort { kNone, kKernel, kCopy, kSet };
  enum class Direction { kToDevice, kToHost, kOnDevice, kBetweenDevices };

  Sort sort = Sort::kNone;
  Direction direction = Direction::kOnDevice;  // direction of a copy
  uint64_t bytes = 0;
};

// Work that a stream can hold. It may run more than once, if it is captured.
struct Work {
  const char* name = "";  // outlives the queue
  Nanos cost = 0;
  Nanos cost_both_ways = 0;  // cost of a copy while another goes the other way
  Engine engine = Engine::kNone;
  std::function<void()> move;  // under the lock
  std::function<void()> call;  // unlocked; runs after `move`
  std::vector<Access> accesses = {};
  Activity activity = {};
};

struct Stream;

// Work with its place in a stream.
struct Op {
  enum class State { kQueued, kRunning, kDone };

  Work work;
  Stream* stream;
  OpId id;
  Nanos begin;
  Nanos end;
  State state = State::kQueued;
  std::vector<std::shared_ptr<Op>> waits;
  std::shared_ptr<const Order> behind;  // the ops of other streams before it
};
using OpRef = std::shared_ptr<Op>;

// The state of a capture. Its work has no accesses: allocators keep a graph's
// memory for its launches, though they call it free.
struct Capture {
  uint64_t id;
  Stream* origin;
  std::vector<Stream*> members;
  std::vector<Work> work;
};

struct Stream {
  int device;
  bool legacy;        // the default stream
  bool non_blocking;  // takes no part in the default stream's implicit order
  int priority;
  uint32_t id;
  uint64_t pushed = 0;
  Nanos free_at = 0;
  std::deque<OpRef> queued;
  std::deque<Nanos> ends;  // ends of work that the device has not done yet, in
                           // order
  OpRef last;
  std::vector<OpRef> waits;  // waits of the next op
  std::shared_ptr<const Order> behind;
  uint64_t host_order = 0;  // which state of the host's order `behind` has
  std::shared_ptr<Capture> capture;
};

class Queue {
 public:
  explicit Queue(int devices);

  Stream* Create(int device, bool non_blocking, int priority);
  // Runs what it holds first. False if there is no such stream.
  bool Destroy(Stream* stream, Lock& lock);
  bool Has(const Stream* stream) const;
  Stream* legacy(int device) const { return streams_[device].get(); }

  // Queues and, by schedule, runs. Null where the stream is capturing.
  OpRef Push(Stream* stream, Work work, Lock& lock);
  // Orders what `stream` gets next behind the op.
  void Await(Stream* stream, const OpRef& op);

  // The host waits: virtual time passes.
  void Wait(const OpRef& op, Lock& lock);
  void WaitStream(Stream* stream, Lock& lock);
  void WaitAll(int device, Lock& lock);  // -1: all devices
  // When all that the stream holds will be done.
  static Nanos EndOf(const Stream& stream);
  // Runs without waiting: no virtual time passes and nothing is ordered.
  void Drain(const OpRef& op, Lock& lock);
  void DrainStream(Stream* stream, Lock& lock);
  void Advance(Nanos time, Lock& lock);

  // The order behind which an op pushed now would be.
  std::shared_ptr<const Order> OrderOf(Stream* stream);
  const Order& host_order() const { return host_order_; }

  void set_schedule(Schedule schedule) { schedule_ = schedule; }
  void set_seed(uint64_t seed);
  // A stream takes so many ops ahead of the device, and then the host waits. 0:
  // any number.
  void set_depth(size_t ops) { depth_ = ops; }
  // Takes no lock.
  Nanos now() const { return now_; }
  void Pass(Nanos time) { now_ += time; }
  uint64_t pending() const;
  uint64_t executed() const { return executed_; }
  // True if this thread is inside a host function of the queue.
  static bool InHostFunction();

 private:
  void AwaitRoom(Stream* stream);
  void GiveTime(Op* op);
  Nanos EndOfCopy(const Op& op) const;
  void RunFront(Stream* stream, Lock& lock);
  void DrainUntil(Nanos time, Lock& lock);
  void RunAhead(Lock& lock);
  Stream* Ready();
  bool Toss();

  std::vector<std::unique_ptr<Stream>> streams_;  // first the default ones
  std::vector<std::array<Nanos, 3>> engines_;     // free at, by device
  uint32_t next_stream_ = 1;
  Schedule schedule_ = Schedule::kLate;
  uint64_t random_ = 0x9e3779b97f4a7c15;
  size_t depth_ = 0;
  std::atomic<Nanos> now_ = 1'000'000;
  uint64_t executed_ = 0;
  Order host_order_;
  uint64_t host_orders_ = 0;  // states of it so far
  std::condition_variable done_;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_QUEUE_H_
