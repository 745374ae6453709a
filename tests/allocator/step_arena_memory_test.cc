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
  memory_.holes = {Bytes{1024}};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(),
              ElementsAre(Pair(0, Bytes{1024}), Pair(kApart, Bytes{2048})));
  EXPECT_EQ(arena_.facts().runs, 2);
  EXPECT_EQ(arena_.facts().size, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  arena_.BeginStep(true);
  EXPECT_EQ(Ask(1024), kBase);
  FreeKept();
  EXPECT_EQ(Ask(2048), kBase + kApart);
  Free(kBase);
  Free(kBase + kApart);
  EXPECT_FALSE(arena_.Owns(kBase + 1024));
}

TEST_F(StepArenaMemoryTest, HolesAreLeftAloneWhereAPlanWouldWasteThem) {
  memory_.holes = {Bytes{512}, Bytes{512}, Bytes{1024}};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(), ElementsAre(Pair(3 * kApart, Bytes{1024 + 2048})));
  EXPECT_EQ(arena_.facts().height, arena_.facts().bound);
}

TEST_F(StepArenaMemoryTest, WithoutMemoryInOnePieceHolesAreUsedAllTheSame) {
  memory_.holes = {Bytes{512}, Bytes{512}, Bytes{1024}};
  memory_.most = Bytes{2048};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(),
              ElementsAre(Pair(0, Bytes{512}), Pair(2 * kApart, Bytes{1024}),
                          Pair(3 * kApart, Bytes{2048})))
      << "of the second hole nothing is used";
  EXPECT_EQ(arena_.facts().bound, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().height, Bytes{512 + 1024 + 2048});
}

TEST_F(StepArenaMemoryTest, HolesThatCannotGoBackAreNotLost) {
  memory_.holes = {Bytes{512}, Bytes{512}, Bytes{1024}};
  memory_.may_be_given_back = false;
  StepUntil(State::kLeaving);
  EXPECT_EQ(arena_.facts().reason, "holes cannot be given back now");
  EXPECT_THAT(Taken(), SizeIs(4));
  memory_.may_be_given_back = true;
  arena_.BeginStep(true);
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaMemoryTest, WhatAPlanLeavesOfAHoleGoesBack) {
  memory_.holes = {Bytes{8192}};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(), ElementsAre(Pair(kApart, Bytes{3072})));
  EXPECT_EQ(arena_.facts().height, Bytes{3072});
  arena_.BeginStep(true);
  EXPECT_EQ(Ask(1024), kBase + kApart + 2048) << "where the shorter one is";
  Free(kBase + kApart + 2048);
}

// Its memory is the allocator's until the program frees it.
TEST_F(StepArenaMemoryTest, WhatIsAliveWhenStepsBeginIsPlacedWithTheRest) {
  StepUntil(State::kServing);
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(kept_, kBase) << "where a larger one was that is over";
  EXPECT_EQ(arena_.facts().carried, 0);
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().counts.planned, 6 * 3);
  EXPECT_THAT(memory_.taken, SizeIs(1));
}

TEST_F(StepArenaMemoryTest, WhatIsAliveWhenStepsBeginLiesInTheEndOfAHole) {
  memory_.holes = {Bytes{3072 + 1024}};
  memory_.most = Bytes{0};
  memory_.carries = true;
  more_ = Bytes{8192};  // with which there is no room for them all
  StepUntil(State::kServing);
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(kept_, kBase + 3072);
  EXPECT_EQ(arena_.facts().carried, 2);
  EXPECT_EQ(arena_.facts().carried_bytes, Bytes{512 + 8192});
  EXPECT_THAT(Taken(), ElementsAre(Pair(0, Bytes{3072 + 1024}),
                                   Pair(kApart, Bytes{8192})));
  EXPECT_EQ(arena_.facts().height, Bytes{3072});
  FreeKept();
  // Nobody has it who looks for any place.
  EXPECT_EQ(arena_.AllocateAnywhere(Bytes{512}, 0), kBase + kApart + 7680);
  EXPECT_EQ(arena_.AllocateAnywhere(Bytes{10240}, 0), nullptr);
}

TEST_F(StepArenaMemoryTest, SmallHolesAreForWhereNothingElseIs) {
  memory_.holes = {Bytes{3072}};
  memory_.small_holes = {Bytes{512}, Bytes{1024}};
  StepUntil(State::kServing);
  EXPECT_EQ(arena_.facts().size, Bytes{3072});
  for (int i = 0; i < 3; ++i) Step(4096);
  Free(std::exchange(kept_, nullptr));
  arena_.BeginStep(true);
  ASSERT_THAT(memory_.taken, IsEmpty());
  memory_.most = Bytes{0};
  memory_.holes = {Bytes{1024}};
  memory_.small_holes = {Bytes{512}, Bytes{2048}};
  StepUntil(State::kServing);
  EXPECT_EQ(arena_.facts().size, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().runs, 2);
}

TEST_F(StepArenaMemoryTest, WithoutWhatIsLeftOfAHoleItStaysInThought) {
  memory_.holes = {Bytes{8192}};
  memory_.may_be_shortened = false;
  ExpectToStayInThought("gone");
}

TEST_F(StepArenaMemoryTest, WithoutMemoryForTheRestItGivesTheHolesBack) {
  memory_.holes = {Bytes{1024}};
  memory_.most = Bytes{0};
  ExpectToStayInThought("no memory");
}

TEST_F(StepArenaMemoryTest, HolesThatMayStillBeInUseAreGivenBack) {
  memory_.holes = {Bytes{1024}};
  memory_.failure = absl::UnavailableError("still in use");
  ExpectToStayInThought("still in use");
}

TEST_F(StepArenaMemoryTest, WhatIsAliveWhenStepsBeginGetsARunOfItsOwn) {
  memory_.holes = {Bytes{3072}};
  memory_.most = Bytes{0};
  memory_.carries = true;
  more_ = Bytes{8192};  // with which there is no room for them all
  StepUntil(State::kServing);
  const void* const carried = kept_;
  EXPECT_TRUE(arena_.Owns(carried));
  EXPECT_EQ(arena_.facts().carried, 2);
  EXPECT_EQ(arena_.facts().carried_bytes, Bytes{512 + 8192});
  for (int i = 0; i < 5; ++i) {
    Step();
    EXPECT_EQ(kept_, carried) << "it has that run in each step";
  }
  EXPECT_THAT(memory_.taken, SizeIs(3));
  EXPECT_EQ(arena_.facts().counts.planned, 4 * 6);
  for (int i = 0; i < 3; ++i) Step(4096);
  FreeKept();
  arena_.BeginStep(true);
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaMemoryTest, WhereARequestHasNoRoomWhatNothingLiesInGoesBack) {
  memory_.holes = {Bytes{1024}};
  StepUntil(State::kServing);
  ASSERT_THAT(Taken(), SizeIs(2));
  arena_.BeginStep(true);
  ASSERT_EQ(Ask(1024), kBase);
  FreeKept();
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
  FreeKept();
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
  memory_.most = Bytes{0};
  ExpectToStayInThought("no memory");
}

}  // namespace
}  // namespace ebbtide
