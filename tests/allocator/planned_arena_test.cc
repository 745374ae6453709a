#include "allocator/arena/planned_arena.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr int64_t kKiB = 1024;
char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);

PlannedRequest At(int64_t offset, int64_t size, int stream = 0) {
  return {.size = Bytes{size}, .stream = stream, .offset = offset};
}

ArenaPlan PlanOf(std::vector<PlannedRequest> step) {
  return ArenaPlan::Make(step);
}

std::vector<int> PrecedingOf(const ArenaPlan& plan, int slot) {
  const auto preceding = plan.PrecedingOf(plan.slots()[slot]);
  return {preceding.begin(), preceding.end()};
}

TEST(ArenaPlanTest, ThoseAskedForLastAtItsAddressesPrecedeASlot) {
  const ArenaPlan plan = PlanOf(
      {At(0, 2 * kKiB), At(0, kKiB), At(kKiB, 2 * kKiB), At(4 * kKiB, 1)});
  EXPECT_EQ(plan.height(), Bytes{4 * kKiB + 512});
  EXPECT_THAT(PrecedingOf(plan, 0), ElementsAre(1, 2));
  EXPECT_THAT(PrecedingOf(plan, 1), ElementsAre(0));
  EXPECT_THAT(PrecedingOf(plan, 2), ElementsAre(0, 2));
  EXPECT_THAT(PrecedingOf(plan, 3), ElementsAre(3));
}

TEST(PlannedArenaTest, EveryStepGetsTheAddressesOfThePlan) {
  PlannedArena arena(PlanOf({At(0, 100), At(512, 1000), At(0, 600)}), kBase,
                     nullptr);
  for (int step = 0; step < 3; ++step) {
    arena.BeginStep();
    EXPECT_EQ(arena.Allocate(Bytes{100}, 0), kBase);
    EXPECT_EQ(arena.Allocate(Bytes{1000}, 0), kBase + 512);
    EXPECT_EQ(arena.live(), Bytes{512 + 1024});
    EXPECT_TRUE(arena.Free(kBase));
    EXPECT_TRUE(arena.Free(kBase + 512));
    EXPECT_EQ(arena.Allocate(Bytes{600}, 0), kBase);
    EXPECT_TRUE(arena.Free(kBase));
  }
  EXPECT_EQ(arena.counts().planned, 9);
  EXPECT_EQ(arena.live(), Bytes{0});
}

TEST(PlannedArenaTest, LivesAreCountedInSlotsAcrossSteps) {
  PlannedArena arena(PlanOf({At(0, 100), At(512, 200), At(1024, 300)}), kBase,
                     nullptr);
  void* const first = arena.Allocate(Bytes{100}, 0);
  void* const second = arena.Allocate(Bytes{200}, 0);
  EXPECT_TRUE(arena.Free(second));
  EXPECT_EQ(arena.Allocate(Bytes{700}, 0), nullptr) << "is in no slot";
  EXPECT_TRUE(arena.Free(first));
  EXPECT_THAT(arena.lives(), ElementsAre(2, 1, 0));
  void* const third = arena.Allocate(Bytes{300}, 0);
  arena.BeginStep();
  EXPECT_TRUE(arena.Free(arena.Allocate(Bytes{100}, 0)));
  EXPECT_TRUE(arena.Free(third));
  EXPECT_THAT(arena.lives(), ElementsAre(2, 1, 2));
}

TEST(PlannedArenaTest, WhatOutlivesItsPlanIsNotOverwritten) {
  PlannedArena arena(PlanOf({At(0, 512), At(0, 512), At(0, 512)}), kBase,
                     nullptr);
  void* const first = arena.Allocate(Bytes{512}, 0);
  EXPECT_EQ(first, kBase);
  // The second was to have its place; the third follows the second there.
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_EQ(arena.counts().occupied, 2);
  EXPECT_TRUE(arena.Free(first));
  arena.BeginStep();
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
}

TEST(PlannedArenaTest, WhatIsLiveSinceTheLastStepIsNotOverwritten) {
  PlannedArena arena(PlanOf({At(0, 512), At(512, 700)}), kBase, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
  arena.BeginStep();
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_EQ(arena.counts().occupied, 1);
  EXPECT_EQ(arena.counts().skipped, 1);
}

TEST(PlannedArenaTest, OneThatDoesNotComeIsSkipped) {
  PlannedArena arena(PlanOf({At(0, 100), At(512, 200), At(1024, 300)}), kBase,
                     nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{100}, 0), kBase);
  EXPECT_EQ(arena.Allocate(Bytes{300}, 0), kBase + 1024);
  EXPECT_EQ(arena.counts().skipped, 1);
}

TEST(PlannedArenaTest, OneThatWasNotPlannedMovesNothing) {
  PlannedArena arena(PlanOf({At(0, 100), At(512, 200)}), kBase, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{100}, 0), kBase);
  ArenaVerdict verdict;
  EXPECT_EQ(arena.Allocate(Bytes{150}, 0, &verdict), nullptr);
  EXPECT_EQ(verdict.what, ArenaVerdict::What::kUnexpected);
  EXPECT_EQ(arena.Allocate(Bytes{200}, 0), kBase + 512);
  EXPECT_EQ(arena.Allocate(Bytes{200}, 0, &verdict), nullptr);
  EXPECT_EQ(verdict.what, ArenaVerdict::What::kBeyond);
  EXPECT_EQ(arena.counts().unexpected, 1);
}

TEST(PlannedArenaTest, WhatIsNoBlockOfItsIsLeftAlone) {
  PlannedArena arena(PlanOf({At(0, 2048)}), kBase, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{2048}, 0), kBase);
  EXPECT_FALSE(arena.Free(kBase - 512));
  EXPECT_FALSE(arena.Free(kBase + 512));
  EXPECT_FALSE(arena.Free(kBase + 2048));
  EXPECT_TRUE(arena.Free(kBase));
  EXPECT_FALSE(arena.Free(kBase));
}

TEST(PlannedArenaTest, WhatIsUnplacedIsLeftToOthers) {
  PlannedArena arena(PlanOf({At(0, 512), At(kUnplaced, 700), At(0, 512)}),
                     kBase, nullptr);
  for (int step = 1; step <= 2; ++step) {
    arena.BeginStep();
    EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
    ArenaVerdict verdict;
    EXPECT_EQ(arena.Allocate(Bytes{700}, 0, &verdict), nullptr);
    EXPECT_EQ(verdict.what, ArenaVerdict::What::kUnplaced);
    EXPECT_EQ(verdict.slot, 1);
    EXPECT_TRUE(arena.Free(kBase));
    EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
    EXPECT_TRUE(arena.Free(kBase));
    EXPECT_EQ(arena.counts().planned, 2 * step);
    EXPECT_EQ(arena.counts().unexpected, 0);
  }
}

TEST(PlannedArenaTest, ASlotWithoutMemoryMayBeAskedForAgain) {
  bool has_memory = false;
  PlannedArena arena(PlanOf({At(0, 512), At(0, 700)}), kBase, nullptr,
                     [&](const ArenaPlan::Slot&) { return has_memory; });
  ArenaVerdict verdict;
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0, &verdict), nullptr);
  EXPECT_EQ(verdict.what, ArenaVerdict::What::kOccupied);
  arena.ExpectAgain(verdict);
  has_memory = true;
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0, &verdict), kBase);
  EXPECT_EQ(arena.counts().planned, 1);
  EXPECT_EQ(arena.counts().occupied + arena.counts().skipped, 0);
}

// Notes which marks streams were put behind.
class NotedOrder final : public StreamOrder {
 public:
  int streams() const override { return 2; }
  absl::StatusOr<StreamMark> Mark(int /*stream*/) override {
    return std::make_shared<const int>(0);
  }
  absl::Status RunBehind(const StreamMark& mark, int stream) override {
    behind.emplace_back(mark, stream);
    return absl::OkStatus();
  }
  bool IsOver(const StreamMark& /*mark*/) override { return false; }
  absl::Status Wait(const StreamMark& /*mark*/) override {
    return absl::OkStatus();
  }

  std::vector<std::pair<StreamMark, int>> behind;
};

TEST(PlannedArenaTest, AStreamWaitsForACopyOfItsSlotOnce) {
  NotedOrder order;
  PlannedArena arena(PlanOf({At(0, 1024), At(0, 512), At(512, 512)}), kBase,
                     &order);
  const StreamMark copied = std::make_shared<const int>(1);
  arena.Free(arena.Allocate(Bytes{1024}, 0), {}, {copied});
  EXPECT_THAT(arena.OutsideEnds(), ElementsAre(copied));
  ASSERT_NE(arena.Allocate(Bytes{512}, 0), nullptr);
  ASSERT_NE(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_THAT(order.behind, ElementsAre(std::pair(copied, 0)));
}

TEST(PlannedArenaTest,
     PagesOfASlotAreUnmappedBehindACopyThatItsStreamWaitsFor) {
  NotedOrder order;
  PlannedArena arena(PlanOf({At(0, 1024), At(0, 512)}), kBase, &order);
  const StreamMark copied = std::make_shared<const int>(1);
  arena.Free(arena.Allocate(Bytes{1024}, 0), {}, {copied});
  ASSERT_NE(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_THAT(arena.OutsideEnds(), ElementsAre(copied))
      << "the rest of the slot may be unmapped before the stream is there";
}

TEST(PlannedArenaTest, AnotherStreamWaitsForTheCopyToo) {
  NotedOrder order;
  PlannedArena arena(PlanOf({At(0, 1024), At(0, 512), At(512, 512, 1)}), kBase,
                     &order);
  const StreamMark copied = std::make_shared<const int>(1);
  arena.Free(arena.Allocate(Bytes{1024}, 0), {}, {copied});
  ASSERT_NE(arena.Allocate(Bytes{512}, 0), nullptr);
  ASSERT_NE(arena.Allocate(Bytes{512}, 1), nullptr);
  EXPECT_THAT(order.behind, Contains(std::pair(copied, 0)));
  EXPECT_THAT(order.behind, Contains(std::pair(copied, 1)));
}

TEST(PlannedArenaTest, AllCopiesAreWaitedForBehindOneThatWasNotServed) {
  NotedOrder order;
  PlannedArena arena(PlanOf({At(0, 512), At(512, 1024), At(512, 512)}), kBase,
                     &order);
  const StreamMark copied = std::make_shared<const int>(1);
  arena.Free(arena.Allocate(Bytes{512}, 0), {}, {copied});
  // The second does not come.
  ASSERT_EQ(arena.Allocate(Bytes{512}, 0), kBase + 512);
  EXPECT_THAT(order.behind, Contains(std::pair(copied, 0)));
}

TEST(PlannedArenaTest, LiveBlocksAreListedByOffset) {
  PlannedArena arena(PlanOf({At(1024, 512), At(0, 512), At(512, 512)}), kBase,
                     nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_NE(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_TRUE(arena.Free(kBase));
  std::vector<int64_t> offsets;
  for (const ArenaPlan::Slot* slot : arena.Live()) {
    offsets.push_back(slot->offset);
  }
  EXPECT_THAT(offsets, ElementsAre(512, 1024));
}

}  // namespace
}  // namespace ebbtide
