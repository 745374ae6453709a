#include "tests/cudasim/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>

namespace cudasim {
namespace {

using testing::ElementsAre;

// A queue and the names of its work in the order in which it ran.
class QueueTest : public testing::Test {
 protected:
  OpRef Push(Stream* stream, const char* name, Nanos cost = 100,
             Engine engine = Engine::kNone) {
    Work work;
    work.name = name;
    work.cost = cost;
    work.engine = engine;
    work.move = [this, name] { ran.emplace_back(name); };
    return queue.Push(stream, std::move(work), lock);
  }
  Stream* Side() { return queue.Create(0, true, 0); }

  std::mutex mutex;
  Lock lock{mutex};
  Queue queue{1};
  std::vector<std::string> ran;
};

TEST_F(QueueTest, TheHostWaitsWhereAStreamHoldsAsManyOpsAsItMay) {
  queue.set_depth(3);
  Stream* const side = Side();
  const Nanos begin = queue.now();
  for (int i = 0; i < 3; ++i) Push(side, "ahead", 100);
  EXPECT_EQ(queue.now(), begin);
  Push(side, "waits for the first", 100);
  EXPECT_EQ(queue.now(), begin + 100);
  queue.Pass(250);
  Push(side, "the device has caught up", 100);
  EXPECT_EQ(queue.now(), begin + 350);
  Push(Side(), "another stream has its own", 100);
  EXPECT_EQ(queue.now(), begin + 350);
}

// Alone a copy takes 100, beside one the other way 125.
TEST_F(QueueTest, ACopyIsSlowerWhileAnotherGoesTheOtherWay) {
  const auto copy = [this](Engine engine) {
    Work work;
    work.cost = 100;
    work.cost_both_ways = 125;
    work.engine = engine;
    const OpRef op = queue.Push(Side(), std::move(work), lock);
    return std::pair(op->begin, op->end);
  };
  const Nanos begin = queue.now();
  EXPECT_EQ(copy(Engine::kToHost), std::pair(begin, begin + 100));
  // 100 of 125 are done when the other way is free; the rest goes fast.
  EXPECT_EQ(copy(Engine::kToDevice), std::pair(begin, begin + 120));
  EXPECT_EQ(copy(Engine::kToHost), std::pair(begin + 100, begin + 204));
  queue.Pass(1000);
  EXPECT_EQ(copy(Engine::kToDevice), std::pair(begin + 1000, begin + 1100));
}

TEST_F(QueueTest, EagerRunsWorkAtOnce) {
  queue.set_schedule(Schedule::kEager);
  Stream* const side = Side();
  Push(queue.legacy(0), "a");
  EXPECT_THAT(ran, ElementsAre("a"));
  Push(side, "b");
  EXPECT_THAT(ran, ElementsAre("a", "b"));
}

TEST_F(QueueTest, LateRunsOnlyWhatIsWaitedForAndWhatThatNeeds) {
  Stream* const side = Side();
  Stream* const other = Side();
  Push(side, "unneeded before");
  const OpRef made = Push(side, "made");
  Push(side, "unneeded after");
  queue.Await(other, made);
  const OpRef used = Push(other, "used");
  Push(queue.legacy(0), "main");
  EXPECT_TRUE(ran.empty());
  queue.Wait(used, lock);
  EXPECT_THAT(ran, ElementsAre("unneeded before", "made", "used"));
}

TEST_F(QueueTest, OnTimeRunsWorkWhenTheClockHasPassedItsEnd) {
  queue.set_schedule(Schedule::kOnTime);
  Stream* const side = Side();
  Push(side, "short", 100);
  Push(side, "long", 1000);
  Push(Side(), "between", 500);
  queue.Advance(99, lock);
  EXPECT_TRUE(ran.empty());
  queue.Advance(1, lock);
  EXPECT_THAT(ran, ElementsAre("short"));
  queue.Advance(1000, lock);
  EXPECT_THAT(ran, ElementsAre("short", "between", "long"));
}

TEST_F(QueueTest, RaceHoldsBackTheDefaultStreamAlone) {
  queue.set_schedule(Schedule::kRace);
  Stream* const side = Side();
  const OpRef main = Push(queue.legacy(0), "main");
  Push(side, "free");
  queue.Await(side, main);
  Push(side, "ordered");
  EXPECT_THAT(ran, ElementsAre("free"));
  queue.WaitAll(0, lock);
  EXPECT_THAT(ran, ElementsAre("free", "main", "ordered"));
}

TEST_F(QueueTest, RandomKeepsStreamsInOrderAndRepeatsWithItsSeed) {
  const auto run = [](uint64_t seed) {
    std::mutex mutex;
    Lock lock(mutex);
    Queue queue(1);
    queue.set_schedule(Schedule::kRandom);
    queue.set_seed(seed);
    std::string order;
    Stream* const streams[] = {queue.legacy(0), queue.Create(0, true, 0)};
    for (int i = 0; i < 16; ++i) {
      const char name = (i % 2 == 0 ? 'a' : 'A') + i / 2;
      Work work;
      work.move = [&order, name] { order += name; };
      queue.Push(streams[i % 2], std::move(work), lock);
    }
    queue.WaitAll(0, lock);
    return order;
  };
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string order = run(seed);
    EXPECT_EQ(order, run(seed));
    orders.insert(order);
    std::string lower;
    std::string upper;
    for (const char c : order) (c >= 'a' ? lower : upper) += c;
    EXPECT_EQ(lower, "abcdefgh");
    EXPECT_EQ(upper, "ABCDEFGH");
  }
  EXPECT_GT(orders.size(), 5);
}

TEST_F(QueueTest, BlockingStreamsAndTheDefaultOneWaitForEachOther) {
  Stream* const blocking = queue.Create(0, false, 0);
  Stream* const free = Side();
  Push(blocking, "first");
  Push(free, "not ordered");
  Push(queue.legacy(0), "second");
  const OpRef last = Push(blocking, "third");
  queue.Drain(last, lock);
  EXPECT_THAT(ran, ElementsAre("first", "second", "third"));
}

TEST_F(QueueTest, CopiesOverlapWithKernelsButNotWithEachOther) {
  Stream* const one = Side();
  Stream* const two = Side();
  const Nanos begin = queue.now();
  EXPECT_EQ(Push(one, "d2h", 1000, Engine::kToHost)->end, begin + 1000);
  EXPECT_EQ(Push(queue.legacy(0), "kernel", 700)->end, begin + 700);
  EXPECT_EQ(Push(two, "d2h", 1000, Engine::kToHost)->end, begin + 2000);
  const OpRef up = Push(Side(), "h2d", 500, Engine::kToDevice);
  EXPECT_EQ(up->end, begin + 500);
  queue.Await(one, up);
  EXPECT_EQ(Push(one, "after both", 10)->end, begin + 1010);
  queue.WaitAll(0, lock);
  EXPECT_EQ(queue.now(), begin + 2000);
}

TEST_F(QueueTest, DrainingLetsNoVirtualTimePass) {
  const Nanos begin = queue.now();
  queue.Drain(Push(Side(), "a", 1000), lock);
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(queue.now(), begin);
}

TEST_F(QueueTest, HostFunctionsRunUnlockedAndOthersWaitForThem) {
  Stream* const side = Side();
  bool inside = false;
  Work work;
  work.call = [&] {
    inside = Queue::InHostFunction();
    std::thread other([&] {
      Lock theirs(mutex);  // would hang were it held here
      queue.Push(queue.legacy(0), Work{}, theirs);
    });
    other.join();
  };
  queue.Drain(queue.Push(side, std::move(work), lock), lock);
  EXPECT_TRUE(inside);
  EXPECT_FALSE(Queue::InHostFunction());
  EXPECT_EQ(queue.pending(), 1);
}

TEST_F(QueueTest, TwoThreadsThatWaitForOneOpRunItOnce) {
  Stream* const side = Side();
  std::atomic<int> runs{0};
  Work work;
  work.call = [&] {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const OpRef op = queue.Push(side, std::move(work), lock);
  lock.unlock();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Lock theirs(mutex);
      queue.Wait(op, theirs);
      EXPECT_EQ(op->state, Op::State::kDone);
    });
  }
  for (auto& thread : threads) thread.join();
  lock.lock();
  EXPECT_EQ(runs, 1);
}

TEST_F(QueueTest, AChainOfWaitsBetweenTwoStreamsDoesNotRecurse) {
  Stream* const one = Side();
  Stream* const two = Side();
  OpRef last;
  for (int i = 0; i < 50'000; ++i) {
    Stream* const stream = i % 2 == 0 ? one : two;
    if (last) queue.Await(stream, last);
    last = queue.Push(stream, Work{}, lock);
  }
  EXPECT_EQ(queue.pending(), 50'000);
  queue.Wait(last, lock);
  EXPECT_EQ(queue.pending(), 0);
}

TEST_F(QueueTest, CapturedWorkIsCollectedAndDoesNotRun) {
  Stream* const side = Side();
  side->capture = std::make_shared<Capture>(Capture{1, side, {side}, {}});
  EXPECT_EQ(Push(side, "captured"), nullptr);
  queue.WaitAll(0, lock);
  EXPECT_TRUE(ran.empty());
  ASSERT_EQ(side->capture->work.size(), 1);
  for (int i = 0; i < 2; ++i) {
    queue.Push(queue.legacy(0), side->capture->work[0], lock);
  }
  queue.WaitAll(0, lock);
  EXPECT_THAT(ran, ElementsAre("captured", "captured"));
}

TEST_F(QueueTest, ADestroyedStreamHasRunAndIsGone) {
  Stream* const side = Side();
  Push(side, "a");
  EXPECT_TRUE(queue.Destroy(side, lock));
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_FALSE(queue.Has(side));
  EXPECT_FALSE(queue.Destroy(side, lock));
  EXPECT_FALSE(queue.Destroy(queue.legacy(0), lock));
}

}  // namespace
}  // namespace cudasim
