#include "tests/cudasim/queue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cudasim {
namespace {

thread_local bool in_host_function = false;

bool WaitsDone(const Op& op) {
  return std::all_of(op.waits.begin(), op.waits.end(), [](const OpRef& wait) {
    return wait->state == Op::State::kDone;
  });
}

}  // namespace

Queue::Queue(int devices) : engines_(devices) {
  for (int i = 0; i < devices; ++i) {
    Create(i, false, 0)->legacy = true;
  }
}

Stream* Queue::Create(int device, bool non_blocking, int priority) {
  streams_.push_back(
      std::make_unique<Stream>(Stream{.device = device,
                                      .legacy = false,
                                      .non_blocking = non_blocking,
                                      .priority = priority,
                                      .id = next_stream_++}));
  streams_.back()->behind = std::make_shared<Order>();
  return streams_.back().get();
}

bool Queue::Destroy(Stream* stream, Lock& lock) {
  if (!Has(stream) || stream->legacy) return false;
  DrainStream(stream, lock);
  std::erase_if(streams_, [&](const auto& s) { return s.get() == stream; });
  return true;
}

bool Queue::Has(const Stream* stream) const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [&](const auto& s) { return s.get() == stream; });
}

OpRef Queue::Push(Stream* stream, Work work, Lock& lock) {
  if (stream->capture) {
    work.accesses.clear();
    stream->capture->work.push_back(std::move(work));
    return nullptr;
  }
  if (stream->legacy || !stream->non_blocking) {
    for (const auto& other : streams_) {
      const bool ordered = other.get() != stream && other->last &&
                           other->device == stream->device &&
                           !other->non_blocking &&
                           (stream->legacy || other->legacy);
      if (ordered) Await(stream, other->last);
    }
  }
  AwaitRoom(stream);
  auto op = std::make_shared<Op>();
  op->work = std::move(work);
  op->stream = stream;
  op->behind = OrderOf(stream);
  op->id = {stream->id, ++stream->pushed};
  op->waits = std::exchange(stream->waits, {});
  GiveTime(op.get());
  stream->last = op;
  stream->queued.push_back(op);
  if (schedule_ == Schedule::kEager) Drain(op, lock);
  if (schedule_ == Schedule::kOnTime) DrainUntil(now_, lock);
  if (schedule_ == Schedule::kRace || schedule_ == Schedule::kRandom) {
    RunAhead(lock);
  }
  return op;
}

void Queue::AwaitRoom(Stream* stream) {
  if (depth_ == 0) return;
  std::deque<Nanos>& ends = stream->ends;
  while (!ends.empty() && ends.front() <= now_) ends.pop_front();
  if (ends.size() < depth_) return;
  now_ = ends.front();
  ends.pop_front();
}

// On the virtual clock.
void Queue::GiveTime(Op* op) {
  Stream& stream = *op->stream;
  Nanos start = std::max(now_.load(), stream.free_at);
  for (const OpRef& wait : op->waits) start = std::max(start, wait->end);
  Nanos* engine = nullptr;
  if (op->work.engine != Engine::kNone) {
    engine = &engines_[stream.device][static_cast<int>(op->work.engine) - 1];
    start = std::max(start, *engine);
  }
  op->begin = start;
  op->end = EndOfCopy(*op);
  stream.free_at = op->end;
  if (depth_ > 0) stream.ends.push_back(op->end);
  if (engine != nullptr) *engine = op->end;
}

// A copy is slower while another goes the other way. Later copies do not slow
// it any more.
Nanos Queue::EndOfCopy(const Op& op) const {
  const Work& work = op.work;
  if (work.cost_both_ways <= work.cost) return op.begin + work.cost;
  const auto other =
      work.engine == Engine::kToHost ? Engine::kToDevice : Engine::kToHost;
  const Nanos busy_until =
      engines_[op.stream->device][static_cast<int>(other) - 1];
  if (busy_until <= op.begin) return op.begin + work.cost;
  const Nanos beside = busy_until - op.begin;
  if (beside >= work.cost_both_ways) return op.begin + work.cost_both_ways;
  const double done = static_cast<double>(beside) / work.cost_both_ways;
  return busy_until + std::llround((1 - done) * static_cast<double>(work.cost));
}

void Queue::Await(Stream* stream, const OpRef& op) {
  stream->waits.push_back(op);
  auto behind = std::make_shared<Order>(*stream->behind);
  behind->Add(*op->behind);
  behind->Add(op->id);
  stream->behind = std::move(behind);
}

void Queue::Wait(const OpRef& op, Lock& lock) {
  if (!op) return;
  now_ = std::max(now_.load(), op->end);
  Drain(op, lock);
  if (!host_order_.Includes(op->id)) {
    host_order_.Add(*op->behind);
    host_order_.Add(op->id);
    ++host_orders_;
  }
  if (schedule_ == Schedule::kOnTime) DrainUntil(now_, lock);
}

void Queue::WaitStream(Stream* stream, Lock& lock) {
  const OpRef last = stream->last;
  const std::vector<OpRef> waits = stream->waits;
  Wait(last, lock);
  for (const OpRef& wait : waits) Wait(wait, lock);
}

void Queue::WaitAll(int device, Lock& lock) {
  std::vector<OpRef> ends;
  for (const auto& stream : streams_) {
    if (device >= 0 && stream->device != device) continue;
    if (stream->last) ends.push_back(stream->last);
    ends.insert(ends.end(), stream->waits.begin(), stream->waits.end());
  }
  for (const OpRef& end : ends) Wait(end, lock);
}

Nanos Queue::EndOf(const Stream& stream) {
  Nanos end = stream.free_at;
  for (const OpRef& wait : stream.waits) end = std::max(end, wait->end);
  return end;
}

// The latest legal schedule: runs what the goal needs and no more. The stack is
// explicit because chains of waits between two streams get long.
void Queue::Drain(const OpRef& op, Lock& lock) {
  std::vector<OpRef> goals;
  if (op) goals.push_back(op);
  while (!goals.empty()) {
    const OpRef goal = goals.back();
    if (goal->state == Op::State::kDone) {
      goals.pop_back();
      continue;
    }
    const OpRef front = goal->stream->queued.front();
    if (front->state == Op::State::kRunning) {
      done_.wait(lock);  // another thread is in its host function
      continue;
    }
    const auto wait = std::find_if(
        front->waits.begin(), front->waits.end(),
        [](const OpRef& w) { return w->state != Op::State::kDone; });
    if (wait != front->waits.end()) {
      goals.push_back(*wait);
    } else {
      RunFront(goal->stream, lock);
    }
  }
}

void Queue::DrainStream(Stream* stream, Lock& lock) {
  const OpRef last = stream->last;
  const std::vector<OpRef> waits = stream->waits;
  Drain(last, lock);
  for (const OpRef& wait : waits) Drain(wait, lock);
}

void Queue::RunFront(Stream* stream, Lock& lock) {
  const OpRef op = stream->queued.front();
  op->state = Op::State::kRunning;
  if (op->work.move) op->work.move();
  if (op->work.call) {
    lock.unlock();
    in_host_function = true;
    op->work.call();
    in_host_function = false;
    lock.lock();
  }
  op->state = Op::State::kDone;
  op->work.move = nullptr;
  op->work.call = nullptr;
  op->waits.clear();
  stream->queued.pop_front();
  ++executed_;
  done_.notify_all();
}

void Queue::Advance(Nanos time, Lock& lock) {
  now_ += time;
  if (schedule_ == Schedule::kOnTime) DrainUntil(now_, lock);
}

// In the order in which they end.
void Queue::DrainUntil(Nanos time, Lock& lock) {
  for (;;) {
    OpRef first;
    for (const auto& stream : streams_) {
      if (stream->queued.empty()) continue;
      const OpRef& front = stream->queued.front();
      const bool due = front->end <= time && front->state == Op::State::kQueued;
      if (due && (!first || front->end < first->end)) first = front;
    }
    if (!first) return;
    Drain(first, lock);
  }
}

void Queue::RunAhead(Lock& lock) {
  if (schedule_ == Schedule::kRace) {
    while (Stream* const stream = Ready()) RunFront(stream, lock);
    return;
  }
  // The list may grow while a host function runs; what is new waits its turn.
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream* const stream = streams_[i].get();
    if (stream->queued.empty() || Toss()) continue;
    const Op& front = *stream->queued.front();
    if (front.state == Op::State::kQueued && WaitsDone(front)) {
      RunFront(stream, lock);
    }
  }
}

// A stream other than a default one whose first op may run.
Stream* Queue::Ready() {
  for (const auto& stream : streams_) {
    if (stream->legacy || stream->queued.empty()) continue;
    const Op& front = *stream->queued.front();
    if (front.state == Op::State::kQueued && WaitsDone(front)) {
      return stream.get();
    }
  }
  return nullptr;
}

std::shared_ptr<const Order> Queue::OrderOf(Stream* stream) {
  if (stream->host_order != host_orders_) {
    auto behind = std::make_shared<Order>(*stream->behind);
    behind->Add(host_order_);
    stream->behind = std::move(behind);
    stream->host_order = host_orders_;
  }
  return stream->behind;
}

void Queue::set_seed(uint64_t seed) {
  random_ = (seed + 1) * 0x9e3779b97f4a7c15;
}

bool Queue::Toss() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return (random_ >> 32) & 1;
}

uint64_t Queue::pending() const {
  uint64_t sum = 0;
  for (const auto& stream : streams_) sum += stream->queued.size();
  return sum;
}

bool Queue::InHostFunction() { return in_host_function; }

}  // namespace cudasim
