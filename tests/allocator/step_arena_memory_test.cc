// What a step arena has of its memory.
#include "allocator/step_arena.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/step_arena_fixture.h"

namespace ebbtide {
namespace {

using State = StepArena::State;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class StepArenaMemoryTest : public StepArenaTest {
 protected:
  // It gets no memory however often it tries, and holds none in the end.
  void ExpectToStayInThought(const std::string& reason) {
    for (int i = 0; i < 40; ++i) Step();
    EXPECT_EQ(arena_.facts().state, State::kOff);
    EXPECT_EQ(arena_.facts().reason, reason);
    EXPECT_EQ(arena_.facts().retreats, StepArena::kMostRetreats);
    EXPECT_THAT(memory_.taken, IsEmpty());
  }
};

TEST_F(StepArenaMemoryTest, HolesAreServedFromBeforeARunOfItsOwn) {
  memory_.holes = {Bytes{512}, Bytes{1024}};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(), ElementsAre(Pair(kApart, Bytes{1024}),
                                   Pair(2 * kApart, Bytes{2048})))
      << "of the first hole nothing is used";
  EXPECT_EQ(arena_.facts().runs, 2);
  EXPECT_EQ(arena_.facts().size, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  arena_.BeginStep(true);
  EXPECT_EQ(Ask(1024), kBase + kApart);
  Free(kBase + kApart);
  EXPECT_EQ(Ask(2048), kBase + 2 * kApart);
  Free(kBase + 2 * kApart);
  EXPECT_FALSE(arena_.Owns(kBase));
  EXPECT_FALSE(arena_.Owns(kBase + kApart + 1024));
}

TEST_F(StepArenaMemoryTest, WhatAPlanLeavesOfAHoleGoesBack) {
  memory_.holes = {Bytes{8192}};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(), ElementsAre(Pair(kApart, Bytes{2048})));
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  arena_.BeginStep(true);
  EXPECT_EQ(Ask(1024), kBase + kApart) << "where the shorter one is";
  Free(kBase + kApart);
}

TEST_F(StepArenaMemoryTest, WhatIsAliveWhenStepsBeginLiesInTheEndOfAHole) {
  memory_.holes = {Bytes{2048 + 1024}};
  StepUntil(State::kServing);
  EXPECT_EQ(kept_, kBase + 2048);
  EXPECT_EQ(arena_.facts().carried, 1);
  EXPECT_EQ(arena_.facts().carried_bytes, Bytes{512});
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(kept_, kBase + 2048);
  EXPECT_THAT(Taken(), ElementsAre(Pair(0, Bytes{2048 + 1024})));
  EXPECT_EQ(arena_.facts().counts.planned, 3 * 6);
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  // Nobody has it who looks for any place.
  EXPECT_EQ(arena_.AllocateAnywhere(Bytes{512}, 0), kBase + 1536);
  Free(kBase + 1536);
  EXPECT_EQ(arena_.AllocateAnywhere(Bytes{2560}, 0), nullptr);
}

TEST_F(StepArenaMemoryTest, SmallHolesAreForWhereNothingElseIs) {
  memory_.holes = {Bytes{2048}};
  memory_.small_holes = {Bytes{512}, Bytes{1024}};
  StepUntil(State::kServing);
  EXPECT_EQ(arena_.facts().size, Bytes{2048});
  for (int i = 0; i < 3; ++i) Step(4096);
  Free(std::exchange(kept_, nullptr));
  arena_.BeginStep(true);
  ASSERT_THAT(memory_.taken, IsEmpty());
  memory_.has_any = false;
  memory_.holes = {Bytes{1024}};
  memory_.small_holes = {Bytes{512}, Bytes{2048}};
  StepUntil(State::kServing);
  EXPECT_EQ(arena_.facts().size, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().runs, 2);
}

TEST_F(StepArenaMemoryTest, WithoutWhatIsLeftOfAHoleItStaysInThought) {
  memory_.holes = {Bytes{512}, Bytes{8192}};
  memory_.may_be_shortened = false;
  ExpectToStayInThought("gone");
}

TEST_F(StepArenaMemoryTest, WithoutMemoryForTheRestItGivesTheHolesBack) {
  memory_.holes = {Bytes{1024}};
  memory_.has_any = false;
  ExpectToStayInThought("no memory");
}

TEST_F(StepArenaMemoryTest, HolesThatMayStillBeInUseAreGivenBack) {
  memory_.holes = {Bytes{1024}};
  memory_.failure = absl::UnavailableError("still in use");
  ExpectToStayInThought("still in use");
}

TEST_F(StepArenaMemoryTest, WhatIsAliveWhenStepsBeginGetsARunOfItsOwn) {
  memory_.carries = true;
  StepUntil(State::kServing);
  const void* const carried = kept_;
  EXPECT_TRUE(arena_.Owns(carried));
  EXPECT_EQ(arena_.facts().carried, 1);
  EXPECT_EQ(arena_.facts().carried_bytes, Bytes{512});
  for (int i = 0; i < 5; ++i) {
    Step();
    EXPECT_EQ(kept_, carried) << "it has that run in each step";
  }
  EXPECT_THAT(memory_.taken, SizeIs(2));
  EXPECT_EQ(arena_.facts().counts.planned, 3 * 6);
  for (int i = 0; i < 3; ++i) Step(4096);
  Free(std::exchange(kept_, nullptr));
  arena_.BeginStep(true);
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaMemoryTest, WhereARequestHasNoRoomWhatNothingLiesInGoesBack) {
  memory_.holes = {Bytes{1024}};
  StepUntil(State::kServing);
  ASSERT_THAT(Taken(), SizeIs(2));
  arena_.BeginStep(true);
  ASSERT_EQ(Ask(1024), kBase);
  EXPECT_TRUE(arena_.GiveUpIdle());
  EXPECT_THAT(Taken(), ElementsAre(Pair(0, Bytes{1024})));
  EXPECT_TRUE(arena_.Owns(kBase));
  EXPECT_FALSE(arena_.Owns(kBase + kApart));
  EXPECT_EQ(arena_.facts().size, Bytes{1024});
  EXPECT_EQ(arena_.AllocateAnywhere(Bytes{512}, 0), nullptr);
  EXPECT_FALSE(arena_.GiveUpIdle()) << "there is no more";
  EXPECT_TRUE(arena_.IsLeaving());
  EXPECT_EQ(arena_.facts().reason, "memory was missing beside it");
  Free(kBase);
  EXPECT_THAT(memory_.taken, IsEmpty());
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().retreats, 1);
  EXPECT_FALSE(arena_.GiveUpIdle());
}

TEST_F(StepArenaMemoryTest, WhatCannotGoBackAtOnceDoesWhenAStepBegins) {
  memory_.holes = {Bytes{1024}};
  StepUntil(State::kServing);
  arena_.BeginStep(true);
  ASSERT_EQ(Ask(1024), kBase);
  memory_.may_be_given_back = false;
  EXPECT_FALSE(arena_.GiveUpIdle());
  EXPECT_FALSE(arena_.Owns(kBase + kApart)) << "nothing is served from it";
  EXPECT_THAT(Taken(), SizeIs(2));
  memory_.may_be_given_back = true;
  arena_.BeginStep(true);
  EXPECT_THAT(Taken(), ElementsAre(Pair(0, Bytes{1024})));
  Free(kBase);
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaMemoryTest, WithoutMemoryItStaysInThought) {
  memory_.has_any = false;
  ExpectToStayInThought("no memory");
}

}  // namespace
}  // namespace ebbtide
