#include "allocator/arena/plan_pages.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/page_arena_fixture.h"

namespace ebbtide {
namespace {

class PlanPagesTest : public PageArenaTest {};

TEST_F(PlanPagesTest, PlannedAddressesGetTheirPagesWhenTheyAreAskedFor) {
  ASSERT_TRUE(arena_.BeginPlan(
      PlanOf({{.size = Bytes{2 * kFakePage}, .offset = 0},
              {.size = Bytes{kFakePage}, .offset = 2 * kFakePage}})));
  EXPECT_EQ(pages_.mapped(), 0);
  void* const first = Allocate(2 * kFakePage);
  EXPECT_EQ(pages_.mapped(), 2);
  EXPECT_EQ(Allocate(kFakePage), static_cast<char*>(first) + 2 * kFakePage);
  EXPECT_EQ(arena_.facts().planned, Bytes{3 * kFakePage});
  EXPECT_EQ(arena_.facts().counts.planned, 2);
}

TEST_F(PlanPagesTest, WhereThePlanHasNoPageYetTheRequestMayBeMadeAgain) {
  pages_.limit = 2;
  void* const held = Allocate(kFakePage);
  ASSERT_TRUE(
      arena_.BeginPlan(PlanOf({{.size = Bytes{2 * kFakePage}, .offset = 0}})));
  ArenaVerdict verdict;
  EXPECT_EQ(arena_.Allocate(Bytes{2 * kFakePage}, 0, &verdict), nullptr);
  EXPECT_EQ(verdict.what, ArenaVerdict::What::kOccupied);
  Free(held);
  EXPECT_NE(Allocate(2 * kFakePage), nullptr);
  EXPECT_EQ(arena_.facts().counts.planned, 1);
  EXPECT_EQ(arena_.facts().counts.mismatches(), 0);
}

TEST_F(PlanPagesTest, RequestThatFindsNoMemoryHasItsSlotWhenItIsMadeAgain) {
  pages_.limit = 3;
  ASSERT_TRUE(
      arena_.BeginPlan(PlanOf({{.size = Bytes{2 * kFakePage}, .offset = 0},
                               {.size = Bytes{2 * kFakePage}, .offset = 0},
                               {.size = Bytes{kFakePage}, .offset = kUnplaced},
                               {.size = Bytes{kFakePage}, .offset = 0}})));
  void* const late = Allocate(2 * kFakePage);
  ArenaVerdict verdict;
  EXPECT_EQ(arena_.Allocate(Bytes{2 * kFakePage}, 0, &verdict), nullptr);
  EXPECT_EQ(verdict.what, ArenaVerdict::What::kOccupied);
  Free(late);
  void* const again = Allocate(2 * kFakePage);
  EXPECT_EQ(again, late);
  pages_.limit = 2;
  EXPECT_EQ(arena_.Allocate(Bytes{kFakePage}, 0, &verdict), nullptr);
  EXPECT_EQ(verdict.what, ArenaVerdict::What::kUnplaced);
  pages_.limit = 3;
  void* const unplaced = Allocate(kFakePage);
  EXPECT_NE(unplaced, nullptr);
  Free(again);
  EXPECT_EQ(Allocate(kFakePage), late);
  const ArenaCounts counts = arena_.facts().counts;
  EXPECT_EQ(counts.planned, 3);
  EXPECT_EQ(counts.occupied + counts.skipped + counts.unexpected, 0);
}

TEST_F(PlanPagesTest, APlanThatPlacesNothingTakesNoAddresses) {
  void* const held = Allocate(kMiB);
  ASSERT_TRUE(
      arena_.BeginPlan(PlanOf({{.size = Bytes{kMiB}, .offset = kUnplaced}})));
  Free(held);
  arena_.GiveBack(kAddresses, /*of_plan=*/true);
  EXPECT_TRUE(ArenaCheck::Holds(arena_));
  EXPECT_EQ(Allocate(kMiB), held);
  arena_.EndPlan();
}

TEST_F(PlanPagesTest, UnplannedRequestsTakeIdlePagesOfThePlan) {
  pages_.limit = 4;
  ASSERT_TRUE(
      arena_.BeginPlan(PlanOf({{.size = Bytes{4 * kFakePage}, .offset = 0}})));
  Free(Allocate(4 * kFakePage));
  void* const other = Allocate(3 * kFakePage);
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(arena_.facts().planned, Bytes{kFakePage});
  EXPECT_EQ(arena_.facts().elsewhere, 1);
  Free(other);
  arena_.BeginStep();
  EXPECT_NE(Allocate(4 * kFakePage), nullptr);
  EXPECT_EQ(arena_.facts().planned, Bytes{4 * kFakePage});
}

// Each page asked for each copy: 75,000 calls in one step of a GPT of 1 B.
TEST_F(PlanPagesTest, CopiesOfAPlanThatEndsAreAskedForOnce) {
  constexpr int kBlocks = 16;
  std::vector<PlannedRequest> requests;
  for (int i = 0; i < kBlocks; ++i) {
    requests.push_back({.size = Bytes{kFakePage}, .offset = i * kFakePage});
  }
  ASSERT_TRUE(arena_.BeginPlan(PlanOf(requests)));
  for (int i = 0; i < kBlocks; ++i) {
    void* const block = Allocate(kFakePage);
    const std::vector<StreamMark> ends = {pages_.Copy(block)};
    pages_.Give(block, {});
    EXPECT_TRUE(arena_.Free(block, {}, ends));
  }
  arena_.EndPlan();
  EXPECT_LE(pages_.questions(), kBlocks);
  pages_.limit = kBlocks;
  Free(Allocate(kBlocks * kFakePage));
  EXPECT_LE(pages_.questions(), 2 * kBlocks);
}

TEST_F(PlanPagesTest, BlocksStayWhereTheyAreWhenThePlanEnds) {
  ASSERT_TRUE(arena_.BeginPlan(
      PlanOf({{.size = Bytes{kFakePage}, .offset = 0},
              {.size = Bytes{kFakePage}, .offset = kFakePage},
              {.size = Bytes{kFakePage}, .offset = 2 * kFakePage}})));
  void* const first = Allocate(kFakePage);
  void* const second = Allocate(kFakePage);
  void* const third = Allocate(kFakePage);
  Free(second);
  arena_.EndPlan();
  EXPECT_TRUE(ArenaCheck::Holds(arena_));
  pages_.limit = 3;
  EXPECT_NE(Allocate(kFakePage), nullptr);
  Free(third);
  Free(first);
}

// As gradients that lie apart by their turn (page_arena_test.cc).
TEST_F(PlanPagesTest, BlockBesideThePlanHasNoTurnInItsBackwardPass) {
  constexpr auto kBackward = PageArena::By::kBackward;
  constexpr int64_t kSize = kMiB + 512;
  const void* const parameter = Allocate(kSize);
  arena_.BeginStep();
  ASSERT_TRUE(arena_.BeginPlan(PlanOf({{.size = Bytes{512}, .offset = 0}})));
  Allocate(kSize, 0, kBackward);
  arena_.EndPlan();
  arena_.BeginStep();
  EXPECT_LT(Allocate(kSize, 0, kBackward), parameter);
  EXPECT_LT(Allocate(kSize, 0, kBackward), parameter);
}

TEST_F(PlanPagesTest, RequestForWhoseSlotNoPageIsLeftLiesInPartsOfPages) {
  pages_.limit = 2;
  void* const held = Allocate(kFakePage + 512);
  ASSERT_TRUE(arena_.BeginPlan(PlanOf({{.size = Bytes{512}, .offset = 0}})));
  EXPECT_EQ(Allocate(512), static_cast<char*>(held) + kFakePage + 512);
  EXPECT_EQ(arena_.facts().counts.occupied, 1);
  arena_.BeginStep();
  Free(held);
  EXPECT_NE(Allocate(512), nullptr);
  EXPECT_EQ(arena_.facts().counts.planned, 1);
}

TEST_F(PlanPagesTest, WhenThePlanEndsOtherStreamsRunBehindCopiesOfItsBlocks) {
  ASSERT_TRUE(arena_.BeginPlan(PlanOf({{.size = Bytes{kMiB}, .offset = 0}})));
  void* const block = Allocate(kMiB);
  const std::vector<StreamMark> ends = {pages_.Copy(block), pages_.Copy(block)};
  pages_.Give(block, {});
  EXPECT_TRUE(arena_.Free(block, {}, ends));
  arena_.EndPlan();
  pages_.limit = kMiB / kFakePage;
  EXPECT_EQ(Allocate(kMiB, /*stream=*/1), block)
      << "the checker sees the order";
}

}  // namespace
}  // namespace ebbtide
