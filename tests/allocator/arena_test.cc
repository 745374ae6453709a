#include "allocator/arena.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

TEST(ArenaTest, BlocksArePageAlignedAndKnowTheirSize) {
  Arena arena(MiB(1));
  void* block = arena.Allocate(Bytes{65537});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kPageSize, 0);
  EXPECT_EQ(arena.SizeOf(block), KiB(68));
  EXPECT_EQ(arena.SizeOf(static_cast<char*>(block) + kPageSize), Bytes{0});
  EXPECT_TRUE(arena.Free(block));
  EXPECT_EQ(arena.SizeOf(block), Bytes{0});
  EXPECT_FALSE(arena.Free(block));
}

TEST(ArenaTest, AFreedBlockIsReusedWithItsPages) {
  Arena arena(MiB(8), Counted());
  void* block = arena.Allocate(MiB(2));
  std::memset(block, 1, 2 << 20);
  arena.Free(block);
  EXPECT_TRUE(Resident(block));
  EXPECT_EQ(arena.Allocate(MiB(2)), block);
  EXPECT_EQ(calls.maps, 1);
  arena.Free(block);
}

TEST(ArenaTest, TheSmallestBlockWithinAnEighthFits) {
  Arena arena(MiB(64));
  void* nine = arena.Allocate(KiB(900));
  void* eight = arena.Allocate(KiB(800));
  arena.Free(nine);
  arena.Free(eight);
  // 800 is too small, 900 within 804 * 9 / 8.
  EXPECT_EQ(arena.Allocate(KiB(804)), nine);
  // 800 is more than 708 * 9 / 8.
  void* fresh = arena.Allocate(KiB(708));
  EXPECT_NE(fresh, eight);
  EXPECT_EQ(arena.Stats().slack, KiB(96));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(nine);
  arena.Free(fresh);
}

TEST(ArenaTest, AboveTheCapTheLargestRetainedBlocksAreCutFirst) {
  Arena arena(MiB(7), Counted());
  void* one = arena.Allocate(MiB(1));
  void* two = arena.Allocate(MiB(2));
  void* four = arena.Allocate(MiB(4));
  arena.Free(one);
  arena.Free(two);
  arena.Free(four);
  EXPECT_EQ(arena.Stats().retained, MiB(7));
  arena.SetCap(MiB(6));
  EXPECT_EQ(arena.Stats().retained, MiB(6));
  EXPECT_EQ(calls.unmaps, 1);
  EXPECT_EQ(arena.Allocate(MiB(1)), one);
  EXPECT_EQ(arena.Allocate(MiB(2)), two);
  EXPECT_EQ(arena.Allocate(MiB(3)), four);
  arena.Free(one);
  arena.Free(two);
  arena.Free(four);
}

TEST(ArenaTest, NoPieceIsLeftThatNoRequestTakes) {
  Arena arena(MiB(1));
  arena.Free(arena.Allocate(KiB(160)));
  arena.SetCap(KiB(159));  // 64 KiB go
  EXPECT_EQ(arena.Stats().retained, KiB(96));
  arena.SetCap(KiB(95));
  EXPECT_EQ(arena.Stats().retained, Bytes{0});
}

TEST(ArenaTest, LiveBlocksAboveTheCapAreNotRetainedWhenFreed) {
  Arena arena(Bytes{0});
  void* block = arena.Allocate(MiB(1));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(arena.Stats().mapped, MiB(1));
  arena.Free(block);
  EXPECT_EQ(arena.Stats().mapped, Bytes{0});
}

TEST(ArenaTest, ALargerBlockIsSplitWhenTheCapLeavesNoRoom) {
  Arena arena(MiB(4), Counted());
  char* four = static_cast<char*>(arena.Allocate(MiB(4)));
  arena.Free(four);
  EXPECT_EQ(arena.Allocate(MiB(1)), four);
  EXPECT_EQ(arena.Allocate(MiB(3)), four + (1 << 20));
  EXPECT_EQ(calls.maps, 1);
  EXPECT_EQ(arena.Stats().mapped, MiB(4));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(four);
  arena.Free(four + (1 << 20));
}

TEST(ArenaTest, TouchingBlocksAreMergedWhenNoneIsLargeEnough) {
  Arena arena(MiB(4), Counted());
  char* four = static_cast<char*>(arena.Allocate(MiB(4)));
  arena.Free(four);
  void* parts[4];
  for (void*& part : parts) part = arena.Allocate(MiB(1));
  for (int i : {3, 0, 2, 1}) arena.Free(parts[i]);
  EXPECT_EQ(arena.Allocate(MiB(3)), four);
  EXPECT_EQ(arena.Allocate(MiB(1)), four + (3 << 20));
  EXPECT_EQ(calls.maps, 1);
  EXPECT_EQ(calls.unmaps, 0);
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(four);
  arena.Free(four + (3 << 20));
}

TEST(ArenaTest, BlocksWithALiveOneBetweenAreNotMerged) {
  Arena arena(MiB(4));
  char* four = static_cast<char*>(arena.Allocate(MiB(4)));
  arena.Free(four);
  void* parts[4];
  for (void*& part : parts) part = arena.Allocate(MiB(1));
  for (int i : {0, 2, 3}) arena.Free(parts[i]);
  EXPECT_EQ(arena.Allocate(MiB(2)), four + (2 << 20));
  EXPECT_EQ(arena.SizeOf(parts[1]), MiB(1));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(parts[1]);
  arena.Free(four + (2 << 20));
}

TEST(ArenaTest, SlackIsCutWhenItWouldBreakTheCap) {
  Arena arena(KiB(1700));
  void* nine = arena.Allocate(KiB(900));
  arena.Free(nine);
  ASSERT_EQ(arena.Allocate(KiB(804)), nine);
  EXPECT_EQ(arena.Stats().slack, KiB(96));
  void* other = arena.Allocate(KiB(896));
  EXPECT_EQ(arena.Stats().slack, Bytes{0});
  EXPECT_EQ(arena.Stats().mapped, KiB(1700));
  EXPECT_EQ(arena.Stats().high_water, KiB(1700));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(nine);
  arena.Free(other);
}

int maps_left = 0;
bool unmap_works = true;
void* MapSome(size_t size) {
  return maps_left-- > 0 ? ArenaSystem::Real().map(size) : nullptr;
}
bool UnmapPerhaps(void* address, size_t size) {
  return unmap_works && ArenaSystem::Real().unmap(address, size);
}
const ArenaSystem kFaulty = {MapSome, UnmapPerhaps, ArenaSystem::Real().move};

TEST(ArenaTest, ARefusedMappingIsTriedAgainWithoutRetainedBlocks) {
  maps_left = 1;
  Arena arena(MiB(100), Counted(kFaulty));
  void* block = arena.Allocate(MiB(1));
  arena.Free(block);
  EXPECT_EQ(arena.Allocate(MiB(2)), nullptr);
  EXPECT_EQ(arena.Stats().mapped, Bytes{0});
  EXPECT_EQ(calls.maps, 3);
  EXPECT_TRUE(ArenaCheck::Holds(arena));
}

TEST(ArenaTest, ABlockThatCannotBeUnmappedStaysRetained) {
  maps_left = 1;
  unmap_works = false;
  Arena arena(Bytes{0}, kFaulty);
  void* block = arena.Allocate(MiB(1));
  arena.Free(block);
  EXPECT_EQ(arena.Stats().retained, MiB(1));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  unmap_works = true;
  arena.SetCap(Bytes{0});
  EXPECT_EQ(arena.Stats().mapped, Bytes{0});
}

TEST(ArenaTest, RandomUseKeepsEveryByteAndTheCap) {
  std::mt19937 rng(7);
  Arena arena(MiB(20));
  struct Held {
    unsigned char* data;
    int64_t size;
    unsigned char fill;
  };
  std::vector<Held> held;
  Bytes live{};
  for (int i = 0; i < 1500; ++i) {
    if (held.size() < 20 && rng() % 2 == 0) {
      const int64_t size = 1 + rng() % (2 << 20);
      auto* data = static_cast<unsigned char*>(arena.Allocate(Bytes{size}));
      ASSERT_NE(data, nullptr);
      held.push_back({data, size, static_cast<unsigned char>(rng())});
      std::memset(data, held.back().fill, size);
      live += RoundUpToPage(Bytes{size});
    } else if (!held.empty()) {
      std::swap(held[rng() % held.size()], held.back());
      const Held last = held.back();
      held.pop_back();
      for (int64_t at = 0; at < last.size; at += kPageSize) {
        ASSERT_EQ(last.data[at], last.fill);
      }
      ASSERT_EQ(last.data[last.size - 1], last.fill);
      ASSERT_TRUE(arena.Free(last.data));
      live -= RoundUpToPage(Bytes{last.size});
    }
    ASSERT_TRUE(ArenaCheck::Holds(arena));
    const ArenaBytes stats = arena.Stats();
    ASSERT_EQ(stats.live - stats.slack, live);
    ASSERT_LE(stats.mapped, std::max(live, MiB(20)));
  }
  for (const Held& each : held) arena.Free(each.data);
  EXPECT_EQ(arena.Stats().live, Bytes{0});
}

TEST(ArenaTest, ThreadsShareTheArena) {
  Arena arena(MiB(4));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&arena, t] {
      for (int i = 0; i < 500; ++i) {
        const int64_t size = int64_t{64 << 10} * (1 + (i + t) % 16);
        auto* data = static_cast<int*>(arena.Allocate(Bytes{size}));
        data[0] = t;
        std::this_thread::yield();
        if (data[0] != t) abort();
        arena.Free(data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.Stats().live, Bytes{0});
  EXPECT_LE(arena.Stats().mapped, MiB(4));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
}

TEST(ArenaTest, AChildOfForkCanAllocate) {
  Arena arena(MiB(4));
  arena.LockForFork();
  const pid_t child = fork();
  arena.UnlockForFork();
  if (child == 0) {
    void* block = arena.Allocate(MiB(1));
    _exit(block != nullptr && arena.Free(block) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ebbtide
