#include "allocator/arena/page_arena.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/page_arena_fixture.h"

namespace ebbtide {
namespace {

TEST_F(PageArenaTest, PagesAreMappedForABlockAndKeptForTheNextOne) {
  void* const block = Allocate(3 * kFakePage);
  EXPECT_EQ(pages_.mapped(), 3);
  Free(block);
  EXPECT_EQ(Allocate(2 * kFakePage), block);
  EXPECT_EQ(Allocate(kFakePage), static_cast<char*>(block) + 2 * kFakePage);
  EXPECT_EQ(pages_.mapped(), 3);
}

TEST_F(PageArenaTest, ABlockBeginsInThePageThatItsNeighbourEndsIn) {
  void* const first = Allocate(kFakePage + 512);
  EXPECT_EQ(Allocate(kFakePage), static_cast<char*>(first) + kFakePage + 512);
  EXPECT_EQ(pages_.mapped(), 3);
}

TEST_F(PageArenaTest, MemoryIsUsedAgainBehindACopyOfIt) {
  pages_.limit = 1;
  void* const block = Allocate(kFakePage);
  const std::vector<StreamMark> ends = {pages_.Copy(block)};
  pages_.Give(block, {});
  EXPECT_TRUE(arena_.Free(block, {}, ends));
  EXPECT_EQ(Allocate(kFakePage), block) << "the checker sees the order";
}

TEST_F(PageArenaTest, BlocksThatMayOutliveAStepLieApart) {
  void* const parameter = Allocate(kMiB + 512);
  arena_.BeginStep();
  void* const activation = Allocate(kMiB + 512);
  EXPECT_EQ(activation, static_cast<char*>(parameter) + kMiB + 512);
  const auto last = [&](int64_t size, PageArena::By by) {
    return static_cast<char*>(Allocate(size, 0, by));
  };
  constexpr auto kBackward = PageArena::By::kBackward;
  constexpr auto kOutside = PageArena::By::kOutside;
  char* const gradient = last(kMiB + 512, kBackward);
  EXPECT_LT(gradient, static_cast<char*>(parameter));
  EXPECT_EQ(last(kMiB + 512, kBackward), gradient + kMiB + 512);
  char* const state = last(kMiB + 512, kOutside);
  EXPECT_LT(state, gradient);
  EXPECT_EQ(last(kMiB + 512, kOutside), state + kMiB + 512);
  // None of that size has outlived a step.
  EXPECT_EQ(last(2 * kMiB, kBackward),
            static_cast<char*>(activation) + kMiB + 512);
}

TEST_F(PageArenaTest, GradientsLieApartFromOthersOfTheirSize) {
  constexpr auto kBackward = PageArena::By::kBackward;
  constexpr int64_t kSize = kMiB + 512;
  const void* const parameter = Allocate(kSize);
  for (int step = 0; step < 3; ++step) {
    arena_.BeginStep();
    void* const passing = Allocate(kSize, 0, kBackward);
    void* const kept = Allocate(kSize, 0, kBackward);
    EXPECT_EQ(passing > parameter, step > 0) << "it may stay in the first step";
    EXPECT_LT(kept, parameter);
    Free(passing);
    Free(Allocate(512, 0, PageArena::By::kOutside));
    Free(kept);
  }
}

TEST_F(PageArenaTest, FreePagesMoveWhereHolesAreTooSmall) {
  pages_.limit = 8;
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(kFakePage));
  for (int i = 0; i < 8; i += 2) Free(blocks[i]);
  EXPECT_NE(Allocate(4 * kFakePage), nullptr);
  EXPECT_EQ(pages_.mapped(), 8);
  EXPECT_EQ(arena_.facts().moves, 4);
  EXPECT_EQ(Allocate(1), nullptr);
}

TEST_F(PageArenaTest, PagesOfSmallBlocksServeLargeOnes) {
  pages_.limit = kMiB / kFakePage + 1;
  std::vector<void*> small;
  for (int64_t i = 0; i < kMiB / kFakePage; ++i) {
    small.push_back(Allocate(kFakePage));
  }
  EXPECT_FALSE(arena_.FindsRoom(Bytes{kMiB}, 0));
  for (void* block : small) Free(block);
  EXPECT_TRUE(arena_.FindsRoom(Bytes{kMiB}, 0));
  EXPECT_NE(Allocate(kMiB), nullptr);
}

TEST_F(PageArenaTest, AnotherStreamRunsBehindTheOneThatUsedTheBlock) {
  pages_.limit = 2;
  void* const block = Allocate(2 * kFakePage, 0);
  Free(block);
  EXPECT_EQ(Allocate(2 * kFakePage, 1), block);
}

TEST_F(PageArenaTest, PagesAreCreatedBeforeAStreamWaitsForAnother) {
  void* const block = Allocate(2 * kFakePage, 0);
  Free(block);
  EXPECT_NE(Allocate(2 * kFakePage, 1), block);
  EXPECT_EQ(pages_.mapped(), 4);
}

TEST_F(PageArenaTest, ABlockThatOtherStreamsUseIsReusedBehindThem) {
  pages_.limit = 2;
  void* const block = Allocate(2 * kFakePage, 0);
  Free(block, {1, 2});
  EXPECT_EQ(Allocate(2 * kFakePage, 0), block);
}

TEST_F(PageArenaTest, WhereStreamsCannotBeOrderedNothingIsGivenTwice) {
  pages_.limit = 2;
  void* const block = Allocate(2 * kFakePage, 0);
  pages_.may_mark = false;
  Free(block, {1});
  EXPECT_EQ(Allocate(2 * kFakePage, 2), nullptr);
  EXPECT_EQ(Allocate(kFakePage, 2), nullptr);
  EXPECT_TRUE(ArenaCheck::Holds(arena_));
  pages_.may_mark = true;
  EXPECT_EQ(Allocate(2 * kFakePage, 2), block);
}

TEST_F(PageArenaTest, FreePagesAreGivenBackAndNoOthers) {
  void* const held = Allocate(kFakePage);
  Free(Allocate(3 * kFakePage));
  EXPECT_EQ(arena_.GiveBack(Bytes{1}, /*of_plan=*/true), Bytes{kFakePage});
  EXPECT_EQ(arena_.GiveBack(kAddresses, /*of_plan=*/true),
            Bytes{2 * kFakePage});
  EXPECT_EQ(pages_.created(), 1);
  Free(held);
}

TEST_F(PageArenaTest, AtLastSmallBlocksLieAmongLargeOnes) {
  pages_.limit = kMiB / kFakePage + 1;
  void* const large = Allocate(kMiB + 512);
  EXPECT_EQ(Allocate(kFakePage - 512), nullptr);
  void* const small = arena_.AllocateAnywhere(Bytes{kFakePage - 512}, 0);
  EXPECT_EQ(small, static_cast<char*>(large) + kMiB + 512);
  EXPECT_TRUE(arena_.Free(small));
}

TEST_F(PageArenaTest, ABlockIsJoinedOfPartsOfPages) {
  pages_.limit = 3;
  constexpr int64_t kHalf = kFakePage / 2;
  void* const before = Allocate(kHalf);
  void* const middle = Allocate(kFakePage);
  void* const behind = Allocate(kFakePage + kHalf);
  Free(before);
  Free(behind);
  // A beginning, an end, and one whole page are free.
  EXPECT_EQ(Allocate(2 * kFakePage), nullptr);
  void* const joined = arena_.AllocateAnywhere(Bytes{2 * kFakePage}, 0);
  ASSERT_NE(joined, nullptr);
  pages_.Take(joined, 2 * kFakePage, 0);
  EXPECT_EQ(pages_.aliases(), 2);
  EXPECT_EQ(pages_.mapped(), 3);
  EXPECT_TRUE(ArenaCheck::Holds(arena_));
  // Each page is listed where it is in use, and twice only if it is at both.
  const auto range = [](void* block, int64_t size) {
    return PageArena::Range{static_cast<char*>(block),
                            static_cast<char*>(block) + size};
  };
  const auto listed = [&](const std::vector<PageArena::Range>& live) {
    int64_t bytes = 0;
    for (const PageArena::Range& r : arena_.MappedOnce(live)) {
      bytes += r.end - r.begin;
    }
    return bytes;
  };
  EXPECT_EQ(listed({}), 3 * kFakePage);
  EXPECT_EQ(listed({range(middle, kFakePage)}), 3 * kFakePage);
  EXPECT_EQ(listed({range(joined, 2 * kFakePage)}), 3 * kFakePage);
  EXPECT_EQ(listed({range(joined, 2 * kFakePage), range(middle, kFakePage)}),
            5 * kFakePage);
  Free(joined);
  Free(middle);
  // Its pages are free for all else.
  EXPECT_NE(Allocate(3 * kFakePage), nullptr);
}

// Blocks of all sizes come and go on three streams below a small limit. The
// oracle: a request whose bytes fit into the pages that no live block touches
// is served, and at last one that fits into parts of pages.
TEST_F(PageArenaTest, AnyRequestThatFitsIntoFreePagesIsServed) {
  int64_t joined = 0;
  for (int seed = 0; seed < 60; ++seed) {
    FakePages pages(3);
    PageArena arena(&pages, &pages);
    ASSERT_TRUE(arena.Reserve(Bytes{64 * kMiB}).ok());
    std::mt19937 random(seed);
    pages.limit = 4 + random() % 60;
    std::vector<std::pair<void*, int64_t>> blocks;
    for (int round = 0; round < 300; ++round) {
      if (random() % 2 == 0 && !blocks.empty()) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        std::vector<int> others;
        if (random() % 4 == 0) others.push_back(random() % 3);
        pages.Give(blocks.back().first, others);
        EXPECT_TRUE(arena.Free(blocks.back().first, others));
        blocks.pop_back();
        continue;
      }
      const int64_t size = 1 + random() % ((1 + random() % 8) * kFakePage);
      const int stream = random() % 3;
      const int64_t free = pages.limit - pages.PagesOfLive();
      const bool finds_room = arena.FindsRoom(Bytes{size}, stream);
      void* block = arena.Allocate(Bytes{size}, stream);
      EXPECT_EQ(finds_room, block != nullptr);
      if (block == nullptr) {
        EXPECT_LT(free * kFakePage, size) << "seed " << seed;
        const bool fits = pages.FitsIntoPartsOfPages(size);
        block = arena.AllocateAnywhere(Bytes{size}, stream);
        EXPECT_TRUE(block != nullptr || !fits) << "seed " << seed;
        joined += pages.aliases();
      }
      if (block == nullptr) continue;
      pages.Take(block, size, stream);
      blocks.emplace_back(block, size);
    }
    EXPECT_EQ(pages.problem(), "") << "seed " << seed;
    EXPECT_TRUE(ArenaCheck::Holds(arena)) << "seed " << seed;
  }
  EXPECT_GT(joined, 0);
}

TEST_F(PageArenaTest, WhicheverCallForAJoinedBlockFailsNothingIsLost) {
  constexpr int64_t kHalf = kFakePage / 2;
  int refused = 0;
  bool is_over = false;
  for (int64_t call = 0; !is_over; ++call) {
    FakePages pages(2);
    pages.limit = 4;
    PageArena arena(&pages, &pages);
    ASSERT_TRUE(arena.Reserve(Bytes{kMiB}).ok());
    const auto ask = [&](int64_t size, int stream) {
      void* const block = arena.AllocateAnywhere(Bytes{size}, stream);
      if (block != nullptr) pages.Take(block, size, stream);
      return block;
    };
    const auto free = [&](void* block) {
      pages.Give(block, {});
      EXPECT_TRUE(arena.Free(block));
    };
    void* const before = ask(kHalf, 0);
    void* const middle = ask(kFakePage, 0);
    void* const behind = ask(2 * kFakePage + kHalf, 0);
    free(before);
    free(behind);
    pages.calls_until_failure = call;
    void* const joined = ask(3 * kFakePage, 1);
    EXPECT_TRUE(ArenaCheck::Holds(arena)) << call;
    is_over = pages.failures() == 0;
    if (is_over) {
      EXPECT_EQ(pages.aliases(), 2);
      EXPECT_GT(refused, 0);
    }
    if (joined == nullptr) ++refused;
    if (joined != nullptr) free(joined);
    free(middle);
    EXPECT_NE(ask(4 * kFakePage, 0), nullptr) << call;
    EXPECT_TRUE(ArenaCheck::Holds(arena)) << call;
    EXPECT_EQ(pages.problem(), "") << call;
    EXPECT_EQ(pages.created(), pages.mapped()) << call;
  }
}

// Every call fails once, at every position.
TEST_F(PageArenaTest, WhicheverCallFailsNothingIsLostOrLeftBehind) {
  const ArenaPlan plan =
      PlanOf({{.size = Bytes{2 * kFakePage}, .stream = 0, .offset = 0},
              {.size = Bytes{kFakePage}, .stream = 1, .offset = 0},
              {.size = Bytes{3 * kFakePage}, .stream = 0, .offset = 8192}});
  bool is_over = false;
  for (int64_t call = 0; !is_over; ++call) {
    FakePages pages(2);
    pages.limit = 6;
    PageArena arena(&pages, &pages);
    ASSERT_TRUE(arena.Reserve(Bytes{kMiB}).ok());
    pages.calls_until_failure = call;
    std::vector<void*> held;
    const auto ask = [&](int64_t count, int stream) {
      void* const block = arena.Allocate(Bytes{count * kFakePage}, stream);
      if (block == nullptr) return;
      pages.Take(block, count * kFakePage, stream);
      held.push_back(block);
    };
    const auto free = [&](size_t index, std::vector<int> others) {
      if (index >= held.size()) return;
      pages.Give(held[index], others);
      EXPECT_TRUE(arena.Free(held[index], others));
      held.erase(held.begin() + static_cast<int64_t>(index));
    };
    ask(1, 0);
    ask(1, 0);
    ask(2, 1);
    free(0, {1});
    ask(3, 1);
    EXPECT_TRUE(ArenaCheck::Holds(arena)) << call;
    free(1, {});
    free(0, {0});
    arena.BeginPlan(plan);
    for (int step = 0; step < 2; ++step) {
      arena.BeginStep();
      ask(2, 0);
      free(held.size() - 1, {});
      ask(1, 1);
      ask(3, 0);
      EXPECT_TRUE(ArenaCheck::Holds(arena)) << call;
      while (!held.empty()) free(0, {1});
    }
    arena.EndPlan();
    EXPECT_TRUE(ArenaCheck::Holds(arena)) << call;
    EXPECT_EQ(pages.problem(), "") << call;
    arena.GiveBack(Bytes{kMiB}, /*of_plan=*/true);
    if (pages.failures() == 0) {
      EXPECT_EQ(pages.created(), 0) << call;
    }
    EXPECT_EQ(pages.created(), pages.mapped()) << call;
    is_over = pages.failures() == 0;
  }
}

}  // namespace
}  // namespace ebbtide
