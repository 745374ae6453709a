#include "allocator/host_allocator.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

constexpr Bytes MiB(int64_t n) { return Bytes{n << 20}; }

// State of the handlers; each test sets it up.
struct Evictable {
  HostAllocator* allocator = nullptr;
  std::deque<void*> blocks;
  std::vector<Bytes> asked;
  std::atomic<int> overruns = 0;
};
Evictable* evictable = nullptr;

bool EvictOne(Bytes needed) {
  evictable->asked.push_back(needed);
  if (evictable->blocks.empty()) return false;
  evictable->allocator->Free(evictable->blocks.front());
  evictable->blocks.pop_front();
  return true;
}

void NoteOverrun(Bytes wanted, Bytes budget) {
  EXPECT_GT(wanted, budget);
  ++evictable->overruns;
}

class HostAllocatorTest : public testing::Test {
 protected:
  HostAllocatorTest() {
    state_.allocator = &allocator_;
    evictable = &state_;
    allocator_.SetOverrunHandler(&NoteOverrun);
  }

  HostAllocator allocator_;
  Evictable state_;
};

TEST_F(HostAllocatorTest, SmallBlocksAreAlignedAndCountedAsMallocGaveThem) {
  void* block = allocator_.Allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0);
  EXPECT_EQ(Count(allocator_.ledger().live()), malloc_usable_size(block));
  EXPECT_EQ(allocator_.SizeOf(block), Bytes{0});
  allocator_.FreeSmall(block);
  EXPECT_EQ(allocator_.ledger().live(), Bytes{0});
}

TEST_F(HostAllocatorTest, LargeBlocksAreWholePagesAndHaveAKind) {
  EXPECT_FALSE(HostAllocator::IsLarge(65535));
  EXPECT_TRUE(HostAllocator::IsLarge(65536));
  void* block = allocator_.Allocate(70000, Kind::kScratch);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 4096, 0);
  EXPECT_EQ(allocator_.SizeOf(block), Bytes{73728});
  EXPECT_EQ(allocator_.ledger().live(), Bytes{73728});
  EXPECT_EQ(allocator_.ledger().LiveByKind()[static_cast<int>(Kind::kScratch)],
            Bytes{73728});
  allocator_.FreeLarge(block);
  EXPECT_EQ(allocator_.ledger().live(), Bytes{0});
}

TEST_F(HostAllocatorTest, NothingIsAllocatedForNoBytesOrTooMany) {
  EXPECT_EQ(allocator_.Allocate(0), nullptr);
  EXPECT_EQ(allocator_.Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(allocator_.Allocate(size_t{1} << 60), nullptr);
  EXPECT_EQ(allocator_.ledger().live(), Bytes{0});
  allocator_.Free(nullptr);
}

TEST_F(HostAllocatorTest, FreeTellsSmallFromLargeAlsoOnAPageBoundary) {
  void* small = nullptr;
  ASSERT_EQ(posix_memalign(&small, 4096, 100), 0);
  allocator_.ledger().Take(
      Bytes{static_cast<int64_t>(malloc_usable_size(small))});
  void* large = allocator_.Allocate(1 << 20);
  allocator_.Free(small);
  EXPECT_EQ(allocator_.ledger().live(), MiB(1));
  allocator_.Free(large);
  EXPECT_EQ(allocator_.ledger().live(), Bytes{0});
}

TEST_F(HostAllocatorTest, PressureEvictsUntilTheRequestFits) {
  allocator_.SetBudget(MiB(4));
  allocator_.SetPressureHandler(EvictOne);
  for (int i = 0; i < 4; ++i) {
    state_.blocks.push_back(allocator_.Allocate(1 << 20));
  }
  EXPECT_TRUE(state_.asked.empty());
  void* block = allocator_.Allocate(2 << 20);
  EXPECT_EQ(state_.asked, (std::vector<Bytes>{MiB(2), MiB(1)}));
  EXPECT_EQ(allocator_.ledger().RunPeak(), MiB(4));
  EXPECT_LE(allocator_.arena_stats().high_water, MiB(4));
  EXPECT_EQ(state_.overruns, 0);
  allocator_.Free(block);
  for (void* each : state_.blocks) allocator_.Free(each);
}

TEST_F(HostAllocatorTest, SmallRequestsFeelThePressureToo) {
  allocator_.SetBudget(MiB(1));
  allocator_.SetPressureHandler(EvictOne);
  state_.blocks.push_back(allocator_.Allocate(1 << 20));
  void* block = allocator_.Allocate(1000);
  EXPECT_EQ(state_.asked.size(), 1);
  EXPECT_LT(allocator_.ledger().live(), Bytes{2000});
  allocator_.Free(block);
}

TEST_F(HostAllocatorTest, ARequestThatNeverFitsIsToldAndServed) {
  allocator_.SetBudget(MiB(1));
  allocator_.SetPressureHandler(EvictOne);
  void* two = allocator_.Allocate(2 << 20);
  void* one = allocator_.Allocate(1 << 20);
  EXPECT_NE(two, nullptr);
  EXPECT_NE(one, nullptr);
  EXPECT_EQ(state_.overruns, 2);
  allocator_.Free(one);
  allocator_.Free(two);
}

TEST_F(HostAllocatorTest, AnOverrunHandlerThatThrowsRefusesTheRequest) {
  allocator_.SetBudget(MiB(1));
  allocator_.SetOverrunHandler([](Bytes wanted, Bytes budget) {
    NoteOverrun(wanted, budget);
    throw std::bad_alloc();
  });
  EXPECT_THROW(allocator_.Allocate(2 << 20), std::bad_alloc);
  void* full = allocator_.Allocate(1 << 20);
  EXPECT_THROW(allocator_.Allocate(64), std::bad_alloc);
  // The guard against nested handlers was lifted: it throws again.
  EXPECT_THROW(allocator_.Allocate(64), std::bad_alloc);
  EXPECT_EQ(allocator_.ledger().live(), MiB(1));
  EXPECT_EQ(state_.overruns, 3);
  allocator_.Free(full);
}

TEST_F(HostAllocatorTest, RequestsOfAHandlerCallNoHandler) {
  allocator_.SetBudget(MiB(1));
  allocator_.SetPressureHandler([](Bytes needed) {
    evictable->asked.push_back(needed);
    evictable->allocator->Free(evictable->allocator->Allocate(3 << 20));
    return false;
  });
  allocator_.Free(allocator_.Allocate(2 << 20));
  EXPECT_EQ(state_.asked.size(), 1);
  EXPECT_EQ(state_.overruns, 1) << "the handler's own is not told";
}

TEST_F(HostAllocatorTest, RetainedBlocksLeaveRoomForSmallOnes) {
  allocator_.SetBudget(MiB(4));
  allocator_.Free(allocator_.Allocate(3 << 20));
  EXPECT_EQ(allocator_.arena_stats().retained, MiB(3));
  std::vector<void*> small;
  while (allocator_.ledger().live() < MiB(2)) {
    small.push_back(allocator_.Allocate(60000));
  }
  // The arena learns of it at its next request.
  void* large = allocator_.Allocate(1 << 20);
  EXPECT_LE(
      allocator_.arena_stats().mapped + allocator_.ledger().live() - MiB(1),
      MiB(4));
  allocator_.Free(large);
  for (void* each : small) allocator_.Free(each);
}

bool system_has_memory = true;
void* MapUnlessFull(size_t size) {
  return system_has_memory ? ArenaSystem::Real().map(size) : nullptr;
}

TEST_F(HostAllocatorTest, MemoryStaysWithinAnEighthOfTheRecentPeak) {
  allocator_.SetBudget(MiB(1024));
  // No two of these fit into each other's blocks.
  for (const int64_t size : {8, 6, 5, 4, 3, 2}) {
    allocator_.Free(allocator_.Allocate(size << 20));
    EXPECT_LE(allocator_.arena_stats().mapped, MiB(9));
  }
  void* const block = allocator_.Allocate(64 << 20);
  allocator_.Free(block);
  EXPECT_LE(allocator_.arena_stats().mapped, MiB(72));
}

TEST_F(HostAllocatorTest, APeakIsForgottenAfterTwoWindows) {
  allocator_.Free(allocator_.Allocate(64 << 20));
  for (int64_t i = 0; i < 2 * HostAllocator::kWindow; ++i) {
    allocator_.Free(allocator_.Allocate(1 << 20));
  }
  EXPECT_LE(allocator_.arena_stats().mapped, MiB(2));
}

TEST(HostAllocatorFaultTest, AFullSystemCausesEvictionsAndThenNullptr) {
  HostAllocator allocator(
      {MapUnlessFull, ArenaSystem::Real().unmap, ArenaSystem::Real().move});
  Evictable state{.allocator = &allocator};
  evictable = &state;
  allocator.SetPressureHandler(EvictOne);
  state.blocks = {allocator.Allocate(1 << 20), allocator.Allocate(1 << 20)};
  system_has_memory = false;
  EXPECT_EQ(allocator.Allocate(2 << 20), nullptr);
  EXPECT_EQ(state.asked.size(), 3);
  EXPECT_EQ(allocator.ledger().live(), Bytes{0});
  system_has_memory = true;
}

TEST_F(HostAllocatorTest, ThreadsUnderABudgetStayWithinIt) {
  allocator_.SetBudget(MiB(16));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 rng(t);
      for (int i = 0; i < 2000; ++i) {
        const size_t size = 1 + rng() % (rng() % 2 ? 2000 : 4 << 20);
        void* block = allocator_.Allocate(size);
        std::memset(block, t, std::min<size_t>(size, 128));
        allocator_.Free(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator_.ledger().live(), Bytes{0});
  EXPECT_EQ(state_.overruns, 0);
  EXPECT_LE(allocator_.ledger().RunPeak(), MiB(16));
}

// A DataLoader forks while other threads allocate.
TEST_F(HostAllocatorTest, AChildForkedWhileThreadsAllocateCanAllocate) {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) allocator_.Free(allocator_.Allocate(1 << 20));
  });
  for (int i = 0; i < 20; ++i) {
    allocator_.BeforeFork();
    const pid_t child = fork();
    allocator_.AfterFork();
    if (child == 0) {
      void* block = allocator_.Allocate(3 << 20);
      std::memset(block, 1, 3 << 20);
      allocator_.Free(block);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace ebbtide
