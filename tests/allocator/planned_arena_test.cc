#include "allocator/planned_arena.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;

constexpr int64_t kKiB = 1024;
char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);

PlannedRequest At(int64_t offset, int64_t size, int stream = 0) {
  return {.size = Bytes{size}, .stream = stream, .offset = offset};
}

ArenaPlan PlanOf(std::vector<PlannedPhase> phases) {
  auto plan = ArenaPlan::Make(phases);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::vector<int> PrecedingOf(const ArenaPlan& plan, int slot) {
  const auto preceding = plan.PrecedingOf(plan.slots()[slot]);
  return {preceding.begin(), preceding.end()};
}

TEST(ArenaPlanTest, ThoseAskedForLastAtItsAddressesPrecedeASlot) {
  const ArenaPlan plan = PlanOf(
      {{At(0, 2 * kKiB), At(0, kKiB)}, {At(kKiB, 2 * kKiB), At(4 * kKiB, 1)}});
  EXPECT_EQ(plan.height(), Bytes{4 * kKiB + 512});
  EXPECT_THAT(PrecedingOf(plan, 0), ElementsAre(1, 2));
  EXPECT_THAT(PrecedingOf(plan, 1), ElementsAre(0));
  EXPECT_THAT(PrecedingOf(plan, 2), ElementsAre(0, 2));
  EXPECT_THAT(PrecedingOf(plan, 3), ElementsAre(3));
  EXPECT_EQ(plan.BeginOf(1), 2);
  EXPECT_EQ(plan.BeginOf(2), 4);
}

TEST(ArenaPlanTest, WhatIsWrongIsNamed) {
  const auto refusal = [](const PlannedRequest& request) {
    const std::vector<PlannedPhase> phases = {{}, {At(0, 1), request}};
    return std::string(ArenaPlan::Make(phases).status().message());
  };
  EXPECT_EQ(refusal(At(0, 0)),
            "phase 1, request 1: expected a positive size, got 0");
  EXPECT_EQ(refusal(At(100, 1)),
            "phase 1, request 1: expected an offset in steps of 512, got 100");
  EXPECT_EQ(refusal(At(-512, 1)),
            "phase 1, request 1: expected an offset in steps of 512, got -512");
  EXPECT_EQ(refusal(At(0, 1, -1)),
            "phase 1, request 1: expected a stream's number, got -1");
}

TEST(PlannedArenaTest, EveryStepGetsTheAddressesOfThePlan) {
  PlannedArena arena(PlanOf({{At(0, 100), At(512, 1000)}, {At(0, 600)}}), kBase,
                     Bytes{0}, nullptr);
  for (int step = 0; step < 3; ++step) {
    arena.BeginPhase(0);
    EXPECT_EQ(arena.Allocate(Bytes{100}, 0), kBase);
    EXPECT_EQ(arena.Allocate(Bytes{1000}, 0), kBase + 512);
    EXPECT_TRUE(arena.Free(kBase));
    EXPECT_TRUE(arena.Free(kBase + 512));
    arena.BeginPhase(1);
    EXPECT_EQ(arena.Allocate(Bytes{600}, 0), kBase);
    EXPECT_TRUE(arena.Free(kBase));
  }
  EXPECT_EQ(arena.counts().planned, 9);
  EXPECT_EQ(arena.counts().fallback, 0);
}

TEST(PlannedArenaTest, WhatOutlivesItsPlanIsNotOverwritten) {
  PlannedArena arena(PlanOf({{At(0, 512), At(0, 512), At(0, 512)}}), kBase,
                     Bytes{4 << 20}, nullptr);
  void* const first = arena.Allocate(Bytes{512}, 0);
  EXPECT_EQ(first, kBase);
  // The second was to have its place; the third follows the second there.
  EXPECT_GE(arena.Allocate(Bytes{512}, 0), kBase + 512);
  EXPECT_GE(arena.Allocate(Bytes{512}, 0), kBase + 512);
  EXPECT_EQ(arena.counts().occupied, 2);
  EXPECT_TRUE(arena.Free(first));
  arena.BeginPhase(0);
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
}

TEST(PlannedArenaTest, WhatIsLiveSinceTheLastStepIsNotOverwritten) {
  PlannedArena arena(PlanOf({{At(0, 512)}, {At(512, 700)}}), kBase,
                     Bytes{4 << 20}, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
  arena.BeginPhase(0);
  EXPECT_NE(arena.Allocate(Bytes{512}, 0), kBase);
  EXPECT_EQ(arena.counts().occupied, 1);
  EXPECT_EQ(arena.counts().skipped, 1);
}

TEST(PlannedArenaTest, OneThatDoesNotComeIsSkipped) {
  PlannedArena arena(PlanOf({{At(0, 100), At(512, 200), At(1024, 300)}}), kBase,
                     Bytes{4 << 20}, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{100}, 0), kBase);
  EXPECT_EQ(arena.Allocate(Bytes{300}, 0), kBase + 1024);
  EXPECT_EQ(arena.counts().skipped, 1);
  EXPECT_EQ(arena.counts().fallback, 0);
}

TEST(PlannedArenaTest, OneThatWasNotPlannedMovesNothing) {
  PlannedArena arena(PlanOf({{At(0, 100), At(512, 200)}}), kBase,
                     Bytes{4 << 20}, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{100}, 0), kBase);
  void* const other = arena.Allocate(Bytes{150}, 0);
  EXPECT_GE(other, kBase + 1024);
  EXPECT_EQ(arena.Allocate(Bytes{200}, 0), kBase + 512);
  EXPECT_EQ(arena.counts().unexpected, 1);
  EXPECT_EQ(arena.counts().fallback_bytes, 512);
  EXPECT_TRUE(arena.Free(other));
  EXPECT_EQ(arena.counts().fallback_bytes, 0);
  EXPECT_EQ(arena.counts().fallback_peak, 512);
}

TEST(PlannedArenaTest, WithoutRoomNothingIsGiven) {
  PlannedArena arena(PlanOf({{At(0, 100)}}), kBase, Bytes{2 << 20}, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{(2 << 20) + 1}, 0), nullptr);
  EXPECT_NE(arena.Allocate(Bytes{1 << 20}, 0), nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{1}, 1), nullptr);  // all of it is stream 0's
  EXPECT_EQ(arena.counts().refused, 2);
}

TEST(PlannedArenaTest, WhatIsNoBlockOfItsIsLeftAlone) {
  PlannedArena arena(PlanOf({{At(0, 2048)}}), kBase, Bytes{2 << 20}, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{2048}, 0), kBase);
  EXPECT_FALSE(arena.Free(kBase - 512));
  EXPECT_FALSE(arena.Free(kBase + 512));
  EXPECT_FALSE(arena.Free(kBase + 2048));
  EXPECT_FALSE(arena.Free(kBase + (4 << 20)));
  EXPECT_TRUE(arena.Free(kBase));
  EXPECT_FALSE(arena.Free(kBase));
}

TEST(PlannedArenaTest, WhatIsUnplacedIsLeftToOthers) {
  PlannedArena arena(PlanOf({{At(0, 512), At(kUnplaced, 700), At(0, 512)}}),
                     kBase, Bytes{0}, nullptr);
  for (int step = 1; step <= 2; ++step) {
    arena.BeginPhase(0);
    EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
    ArenaVerdict verdict;
    EXPECT_EQ(arena.Allocate(Bytes{700}, 0, &verdict), nullptr);
    EXPECT_EQ(verdict.what, ArenaVerdict::What::kUnplaced);
    EXPECT_EQ(verdict.slot, 1);
    EXPECT_TRUE(arena.Free(kBase));
    EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
    EXPECT_TRUE(arena.Free(kBase));
    EXPECT_EQ(arena.counts().planned, 2 * step);
    EXPECT_EQ(arena.counts().unplaced, step);
  }
}

TEST(PlannedArenaTest, AStrayTakesTheHighestHoleAndNothingIsServedOverIt) {
  PlannedArena arena(PlanOf({{At(0, 1024), At(1024, 512), At(1024, 1024)}}),
                     kBase, Bytes{0}, nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{1024}, 0), kBase);
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{1025}, 0), nullptr);
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{500}, 0), kBase + 1536);
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), kBase + 1024);
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{1}, 0), nullptr);
  EXPECT_TRUE(arena.Free(kBase + 1024));
  // Its other half is the stray's.
  EXPECT_EQ(arena.Allocate(Bytes{1024}, 0), nullptr);
  EXPECT_EQ(arena.counts().occupied, 1);
  EXPECT_TRUE(arena.Free(kBase + 1536));
  EXPECT_FALSE(arena.Free(kBase + 1536));
  EXPECT_TRUE(arena.Free(kBase));
  arena.BeginPhase(0);
  arena.Allocate(Bytes{1024}, 0);
  arena.Allocate(Bytes{512}, 0);
  EXPECT_TRUE(arena.Free(kBase + 1024));
  EXPECT_EQ(arena.Allocate(Bytes{1024}, 0), kBase + 1024);
}

TEST(PlannedArenaTest, WhatIsLeftServesStraysUntilItIsClosed) {
  PlannedArena arena(PlanOf({{At(0, 512)}}), kBase, Bytes{0}, nullptr);
  ASSERT_EQ(arena.Allocate(Bytes{512}, 0), kBase);
  arena.Leave();
  arena.BeginPhase(0);
  EXPECT_FALSE(arena.Close());
  EXPECT_TRUE(arena.Free(kBase));
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), nullptr);
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{512}, 0), kBase);
  EXPECT_FALSE(arena.Close());
  EXPECT_TRUE(arena.Free(kBase));
  EXPECT_TRUE(arena.Close());
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{512}, 0), nullptr);
}

ArenaSpace RunsOf(const std::vector<ArenaRun>& runs) {
  ArenaSpace space;
  for (const ArenaRun& run : runs) space.Append(run);
  return space;
}

TEST(PlannedArenaTest, WhatIsIdleOnceItHasLeftIsClosedRunByRun) {
  const ArenaRun low = {.base = kBase, .size = Bytes{512}};
  const ArenaRun middle = {.base = kBase + kKiB, .size = Bytes{512}};
  const ArenaRun high = {.base = kBase + (1 << 20), .size = Bytes{3 << 20}};
  const std::vector<ArenaRun> memory = {low, middle, high};
  PlannedArena arena(PlanOf({{At(0, 512), At(1024, 512), At(2048, 512)}}),
                     RunsOf(memory), Bytes{2 << 20}, nullptr);
  const auto closed = [&] {
    std::vector<const char*> bases;
    for (const ArenaRun& run : arena.CloseIdle(memory)) {
      bases.push_back(run.base);
    }
    return bases;
  };
  EXPECT_EQ(arena.Allocate(Bytes{512}, 0), low.base);
  void* const fallback = arena.Allocate(Bytes{100}, 0);
  EXPECT_GE(fallback, high.base);
  EXPECT_THAT(closed(), ElementsAre()) << "it may still serve";
  arena.Leave();
  EXPECT_THAT(closed(), ElementsAre(middle.base));
  EXPECT_THAT(closed(), ElementsAre()) << "it has been told of";
  EXPECT_TRUE(arena.Free(fallback));
  void* const stray = arena.AllocateAnywhere(Bytes{512}, 0);
  EXPECT_GE(stray, high.base);
  EXPECT_THAT(closed(), ElementsAre());
  EXPECT_TRUE(arena.Free(stray));
  EXPECT_THAT(closed(), ElementsAre(high.base));
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{512}, 0), nullptr);
  EXPECT_TRUE(arena.Free(low.base));
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{512}, 0), low.base);
  EXPECT_TRUE(arena.Free(low.base));
  EXPECT_TRUE(arena.Close());
  EXPECT_THAT(closed(), ElementsAre());
}

TEST(ArenaSpaceTest, OffsetsGoThroughRunsWithAWallBehindEach) {
  const ArenaSpace space =
      RunsOf({{kBase + 8192, Bytes{1024}}, {kBase, Bytes{2048}}});
  EXPECT_THAT(space.Walls(), ElementsAre(1024, 3584));
  EXPECT_EQ(space.next(), 4096);
  EXPECT_EQ(space.size(), Bytes{3072});
  EXPECT_EQ(space.At(512), kBase + 8192 + 512);
  EXPECT_EQ(space.At(1536), kBase);
  EXPECT_EQ(space.OffsetOf(kBase + 8192), 0);
  EXPECT_EQ(space.OffsetOf(kBase + 2047), 3583);
  EXPECT_EQ(space.OffsetOf(kBase + 2048), std::nullopt);
  EXPECT_EQ(space.OffsetOf(kBase - 1), std::nullopt);
  EXPECT_EQ(space.RunOf(kBase + 9000)->base, kBase + 8192);
  EXPECT_EQ(space.RunOf(kBase + 8191), nullptr);
}

TEST(PlannedArenaTest, ABlockLiesInOneRun) {
  PlannedArena arena(
      PlanOf({{At(0, 1024), At(1536, 600)}}),
      RunsOf({{kBase + 8192, Bytes{1024}}, {kBase, Bytes{2048}}}), Bytes{0},
      nullptr);
  EXPECT_EQ(arena.Allocate(Bytes{1024}, 0), kBase + 8192);
  EXPECT_EQ(arena.Allocate(Bytes{600}, 0), kBase);
  EXPECT_TRUE(arena.Free(kBase + 8192));
  EXPECT_TRUE(arena.Free(kBase));
  // Not below the plan's height over the wall.
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{1100}, 0), nullptr);
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{1000}, 0), kBase);
  EXPECT_EQ(arena.AllocateAnywhere(Bytes{1000}, 0), kBase + 8192);
}

}  // namespace
}  // namespace ebbtide
