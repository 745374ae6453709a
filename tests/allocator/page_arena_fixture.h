// A page arena on fake pages, with its checks.
#ifndef EBBTIDE_TESTS_ALLOCATOR_PAGE_ARENA_FIXTURE_H_
#define EBBTIDE_TESTS_ALLOCATOR_PAGE_ARENA_FIXTURE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/arena/page_arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/fake_pages.h"

namespace ebbtide {

inline constexpr int64_t kMiB = 1 << 20;
inline constexpr Bytes kAddresses{256 * kMiB};

inline ArenaPlan PlanOf(const std::vector<PlannedRequest>& step) {
  return ArenaPlan::Make(step);
}

class PageArenaTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(arena_.Reserve(kAddresses).ok()); }
  void TearDown() override {
    EXPECT_EQ(pages_.problem(), "");
    EXPECT_TRUE(ArenaCheck::Holds(arena_));
  }

  void* Allocate(int64_t size, int stream = 0,
                 PageArena::By by = PageArena::By::kForward) {
    void* const block =
        arena_.Allocate(Bytes{size}, stream, /*verdict=*/nullptr, by);
    if (block != nullptr) pages_.Take(block, size, stream);
    return block;
  }
  void Free(void* block, std::vector<int> others = {}) {
    pages_.Give(block, others);
    EXPECT_TRUE(arena_.Free(block, others));
  }

  FakePages pages_{3};
  PageArena arena_{&pages_, &pages_};
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_PAGE_ARENA_FIXTURE_H_
