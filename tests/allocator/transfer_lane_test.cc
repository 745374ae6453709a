#include "allocator/transfer_lane.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

// In front of the C library's, for the test of lost wake-ups: a thread that has
// looked and is about to wait holds the mutex for a while, and one that gives
// the mutex back does nothing else for a while. A change without the mutex is
// then missed, as it would be once in a million times.
namespace {
std::atomic<bool> slow = false;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void SleepIfSlow(int milliseconds) {
  if (slow) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
}
}  // namespace

extern "C" int pthread_cond_wait(pthread_cond_t* condition,
                                 pthread_mutex_t* mutex) {
  static auto* const wait = Next<decltype(pthread_cond_wait)>(__func__);
  SleepIfSlow(5);
  return wait(condition, mutex);
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static auto* const unlock = Next<decltype(pthread_mutex_unlock)>(__func__);
  const int result = unlock(mutex);
  SleepIfSlow(1);
  return result;
}

namespace ebbtide {
namespace {

using State = Transfer::State;

absl::Status Nothing() { return absl::OkStatus(); }

// Holds a lane until opened.
class Gate {
 public:
  absl::AnyInvocable<absl::Status()> Copy() {
    return [future = open_.get_future().share()] {
      future.wait();
      return absl::OkStatus();
    };
  }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

void WaitUntilRunning(const Transfer& transfer) {
  while (transfer.state() == State::kQueued) std::this_thread::yield();
}

TEST(TransferLaneTest, CopiesRunInOrderAndCallbacksAfterThem) {
  TransferLane lane("lane", Bytes{1000});
  std::vector<int> order;
  std::shared_ptr<Transfer> last;
  for (int i = 0; i < 5; ++i) {
    last = *lane.Submit(
        Bytes{10},
        [&order, i] {
          order.push_back(i);
          return absl::OkStatus();
        },
        [&order, i](const absl::Status& status) {
          order.push_back(status.ok() ? 100 + i : -1);
        });
  }
  EXPECT_TRUE(last->Wait().ok());
  EXPECT_EQ(last->state(), State::kDone);
  EXPECT_EQ(order, (std::vector<int>{0, 100, 1, 101, 2, 102, 3, 103, 4, 104}));
  EXPECT_EQ(lane.in_flight(), Bytes{0});
}

TEST(TransferLaneTest, AFailedCopyHandsItsStatusOn) {
  TransferLane lane("lane", Bytes{1000});
  absl::Status seen;
  const auto transfer = *lane.Submit(
      Bytes{1}, [] { return absl::UnavailableError("disk"); },
      [&seen](const absl::Status& status) { seen = status; });
  EXPECT_EQ(transfer->Wait(), absl::UnavailableError("disk"));
  EXPECT_EQ(transfer->state(), State::kFailed);
  EXPECT_EQ(seen, absl::UnavailableError("disk"));
  const auto thrown = *lane.Submit(
      Bytes{1}, []() -> absl::Status { throw std::runtime_error("oops"); });
  EXPECT_EQ(thrown->Wait().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE((*lane.Submit(Bytes{1}, Nothing))->Wait().ok());
}

TEST(TransferLaneTest, OnlyAQueuedTransferCanBeWithdrawn) {
  TransferLane lane("lane", Bytes{1000});
  Gate gate;
  const auto running = *lane.Submit(Bytes{10}, gate.Copy());
  bool ran = false;
  const auto queued = *lane.Submit(Bytes{20}, [&ran] {
    ran = true;
    return absl::OkStatus();
  });
  WaitUntilRunning(*running);
  EXPECT_FALSE(running->Cancel());
  EXPECT_TRUE(queued->Cancel());
  EXPECT_FALSE(queued->Cancel());
  EXPECT_EQ(queued->state(), State::kWithdrawn);
  EXPECT_EQ(queued->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(lane.in_flight(), Bytes{10});
  gate.Open();
  EXPECT_TRUE(running->Wait().ok());
  EXPECT_FALSE(running->Cancel());
  EXPECT_FALSE(ran);
}

TEST(TransferLaneTest, SubmitWaitsForRoom) {
  TransferLane lane("lane", Bytes{100});
  Gate gate;
  const auto first = *lane.Submit(Bytes{500}, gate.Copy());
  auto second = std::async(std::launch::async, [&lane] {
    return (*lane.Submit(Bytes{1}, Nothing))->Wait();
  });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)),
            std::future_status::timeout);
  EXPECT_EQ(lane.in_flight(), Bytes{500});
  gate.Open();
  EXPECT_TRUE(second.get().ok());
}

TEST(TransferLaneTest, AWithdrawnTransferMakesRoom) {
  TransferLane lane("lane", Bytes{100});
  Gate gate;
  const auto first = *lane.Submit(Bytes{10}, gate.Copy());
  const auto queued = *lane.Submit(Bytes{90}, Nothing);
  auto third = std::async(std::launch::async,
                          [&lane] { return lane.Submit(Bytes{50}, Nothing); });
  EXPECT_TRUE(queued->Cancel());
  EXPECT_TRUE(third.get().ok());
  gate.Open();
}

TEST(TransferLaneTest, DestructionRunsWhatIsQueued) {
  int runs = 0;
  {
    TransferLane lane("lane", Bytes{1000});
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(lane.Submit(Bytes{1},
                              [&runs] {
                                ++runs;
                                return absl::OkStatus();
                              })
                      .ok());
    }
  }
  EXPECT_EQ(runs, 10);
}

TEST(TransferLaneTest, BandwidthTellsLonelyFromContendedCopies) {
  TransferLane down("d2h", Bytes{1 << 30});
  TransferLane up("h2d", Bytes{1 << 30});
  TransferLane::Pair(down, up);
  const auto slow = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return absl::OkStatus();
  };
  EXPECT_EQ(down.Bandwidth(), 0);
  EXPECT_EQ(down.RecentBandwidth(), 0);
  ASSERT_TRUE((*down.Submit(Bytes{2'000'000}, slow))->Wait().ok());
  // 2 MB in 20 ms or more.
  EXPECT_GT(down.Bandwidth(), 0);
  EXPECT_EQ(down.RecentBandwidth(), down.Bandwidth());
  EXPECT_LE(down.Bandwidth(), 100e6);
  EXPECT_EQ(down.ContendedBandwidth(), 0);

  Gate gate;
  const auto other = *up.Submit(Bytes{1}, gate.Copy());
  WaitUntilRunning(*other);
  ASSERT_TRUE((*down.Submit(Bytes{1'000'000}, slow))->Wait().ok());
  EXPECT_GT(down.ContendedBandwidth(), 0);
  EXPECT_LE(down.ContendedBandwidth(), 50e6);
  gate.Open();
}

TEST(TransferLaneTest, TheThreadTakesNoSignals) {
  TransferLane lane("lane", Bytes{1});
  bool blocked = false;
  ASSERT_TRUE((*lane.Submit(Bytes{1},
                            [&blocked] {
                              sigset_t mask;
                              pthread_sigmask(SIG_SETMASK, nullptr, &mask);
                              blocked = sigismember(&mask, SIGXFSZ) == 1 &&
                                        sigismember(&mask, SIGINT) == 1;
                              return absl::OkStatus();
                            }))
                  ->Wait()
                  .ok());
  EXPECT_TRUE(blocked);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

TEST(TransferLaneTest, ManyThreadsSubmitAndCancel) {
  TransferLane lane("lane", Bytes{100});
  std::atomic<int> ran = 0, withdrawn = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto transfer = *lane.Submit(Bytes{30}, [&ran] {
          ++ran;
          return absl::OkStatus();
        });
        if (i % 3 == 0 && transfer->Cancel()) ++withdrawn;
        if (i % 5 == 0) transfer->Wait().IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE((*lane.Submit(Bytes{1}, Nothing))->Wait().ok());
  EXPECT_EQ(ran + withdrawn, 2000);
  EXPECT_EQ(lane.in_flight(), Bytes{0});
}

TEST(TransferLaneTest, NoWakeUpIsLost) {
  alarm(20);
  slow = true;
  for (int i = 0; i < 10; ++i) {
    TransferLane lane("lane", Bytes{100});
    // Ends while the next Submit looks for room, and the last while Wait does.
    const auto brief = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return absl::OkStatus();
    };
    ASSERT_TRUE(lane.Submit(Bytes{60}, brief).ok());
    const auto second = *lane.Submit(Bytes{60}, brief);
    EXPECT_TRUE(second->Wait().ok());
    // Withdrawn while a third looks for room.
    Gate gate;
    const auto running = *lane.Submit(Bytes{10}, gate.Copy());
    const auto queued = *lane.Submit(Bytes{90}, Nothing);
    auto third = std::async(std::launch::async,
                            [&] { return lane.Submit(Bytes{50}, Nothing); });
    EXPECT_TRUE(queued->Cancel());
    const auto last = *third.get();
    gate.Open();
    // The lane is destroyed while its thread looks for more.
    while (last->state() != State::kDone) std::this_thread::yield();
  }
  slow = false;
  alarm(0);
}

// Runs `body` in a forked child and returns its exit status.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(TransferLaneTest, AChildOfForkFailsInsteadOfWaiting) {
  TransferLane lane("lane", Bytes{1000});
  Gate gate;
  const auto done = *lane.Submit(Bytes{1}, Nothing);
  ASSERT_TRUE(done->Wait().ok());
  const auto running = *lane.Submit(Bytes{10}, gate.Copy());
  const int status = InChild([&] {
    const auto submitted = lane.Submit(Bytes{1}, Nothing);
    const bool ok =
        submitted.status().code() == absl::StatusCode::kFailedPrecondition &&
        running->Wait().code() == absl::StatusCode::kFailedPrecondition &&
        !running->Cancel() && done->Wait().ok() && lane.in_flight() == Bytes{0};
    return ok ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  gate.Open();
  EXPECT_TRUE(running->Wait().ok());
}

// exit() runs destructors of statics while the lane is in the middle of a copy.
TEST(TransferLaneTest, ALeakedLaneDoesNotDelayExit) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    static auto* const lane = new TransferLane("lane", Bytes{1000});
    const auto stuck = lane->Submit(Bytes{1}, []() -> absl::Status {
      for (;;) pause();
    });
    WaitUntilRunning(**stuck);
    alarm(20);
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(TransferLaneTest, ARefusedThreadIsAStatus) {
  const int status = InChild([] {
    TransferLane lane("lane", Bytes{1000});
    // No address space holds such a stack.
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 47);
    if (pthread_setattr_default_np(&attributes) != 0) return 2;
    const auto refused = lane.Submit(Bytes{1}, Nothing);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    if (pthread_setattr_default_np(&attributes) != 0) return 3;
    const auto taken = lane.Submit(Bytes{1}, Nothing);
    return refused.status().code() == absl::StatusCode::kResourceExhausted &&
                   taken.ok() && (*taken)->Wait().ok()
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ebbtide
