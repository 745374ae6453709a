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
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

TEST_F(StepArenaTest, ItThinksForSomeStepsBeforeItServes) {
  StepUntil(State::kCounterfactual);
  EXPECT_THAT(memory_.taken, IsEmpty());
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().bound, Bytes{1024 + 2048});
  Step();
  Step();
  EXPECT_EQ(arena_.facts().state, State::kCounterfactual);
  EXPECT_EQ(arena_.facts().counts.planned, 6) << "of the steps that are over";
  Step();
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(arena_.facts().counts.planned, 3)
      << "the step is served that it begins with";
  EXPECT_THAT(Taken(), ElementsAre(Pair(0, Bytes{1024 + 2048})));
}

TEST_F(StepArenaTest, AServedStepIsServedWhole) {
  StepUntil(State::kServing);
  for (int i = 0; i < 50; ++i) Step();
  const StepArena::Facts facts = arena_.facts();
  EXPECT_EQ(facts.state, State::kServing);
  EXPECT_EQ(facts.counts.planned, 3 * 51);
  EXPECT_EQ(facts.counts.planned_bytes, 51 * (1024 + 2048 + 512));
  EXPECT_TRUE(facts.mismatches_by_op.empty());
  EXPECT_EQ(facts.counts.fallback + facts.counts.occupied, 0);
}

TEST_F(StepArenaTest, OneOtherStepDoesNotMakeItLeave) {
  StepUntil(State::kServing);
  for (int i = 0; i < 5; ++i) {
    Step(4096);
    Step();
  }
  EXPECT_EQ(arena_.facts().state, State::kServing);
}

TEST_F(StepArenaTest, OtherStepsMakeItLeaveAndItsMemoryGoesWithTheLastBlock) {
  StepUntil(State::kServing);
  arena_.BeginStep(true);
  void* const held = Ask(1024);
  EXPECT_TRUE(arena_.Owns(held));
  Step(4096);
  FreeKept();
  memory_.may_be_given_back = false;
  arena_.BeginStep(true);
  EXPECT_EQ(arena_.facts().state, State::kLeaving);
  EXPECT_THAT(arena_.facts().reason, HasSubstr("2 requests were not expected"));
  void* const stray = Ask(1024);
  EXPECT_TRUE(arena_.Owns(stray));
  Free(stray);
  Free(held);
  EXPECT_EQ(arena_.facts().state, State::kLeaving);
  EXPECT_THAT(memory_.taken, SizeIs(1));
  memory_.may_be_given_back = true;
  arena_.BeginStep(true);
  EXPECT_THAT(memory_.taken, IsEmpty());
  EXPECT_FALSE(arena_.HasMemory());
  StepUntil(State::kServing);
}

TEST_F(StepArenaTest, ItIsOffAfterSomeRetreats) {
  for (int i = 0; i < StepArena::kMostRetreats; ++i) {
    StepUntil(State::kServing);
    for (int k = 0; k < 4; ++k) Step(4096);
  }
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_THAT(memory_.taken, IsEmpty());
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  Step(1024, /*is_wanted=*/false);
  StepUntil(State::kServing);
}

std::string current_op;
std::string CurrentOp() { return current_op; }

TEST_F(StepArenaTest, WhoDoesNotKeepToThePlanIsNamed) {
  StepArena arena(&memory_, &order_, &CurrentOp);
  int block = 0;
  const auto step = [&](int64_t size) {
    arena.BeginStep(true);
    current_op = "aten::mm";
    void* const there = arena.Allocate(Bytes{size}, 0);
    if (there != nullptr) {
      EXPECT_TRUE(arena.Free(there, {}));
      return;
    }
    arena.OnAllocate(&block, Bytes{size}, 0);
    arena.OnFree(&block);
  };
  while (arena.facts().state != State::kServing) step(1024);
  step(2000);
  // Where nobody knows it is the op that the plan has there.
  arena.BeginStep(true);
  current_op = "";
  EXPECT_EQ(arena.Allocate(Bytes{3000}, 0), nullptr);
  current_op = "aten::add";
  EXPECT_EQ(arena.Allocate(Bytes{4000}, 0), nullptr);
  const auto by_op = arena.facts().mismatches_by_op;
  ASSERT_THAT(by_op, SizeIs(2));
  EXPECT_EQ(by_op.at("aten::mm").requests, 2);
  EXPECT_EQ(by_op.at("aten::mm").bytes, 5000);
  EXPECT_EQ(by_op.at("aten::add").requests, 1);
}

TEST_F(StepArenaTest, WhereItIsNotWantedItDoesNotEvenThink) {
  for (int i = 0; i < 20; ++i) Step(1024, /*is_wanted=*/false);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().height, Bytes{0});
}

// What is alive when the next step begins outlives its second request, which it
// did not before.
TEST_F(StepArenaTest, WhatLivesLongerThanItDidIsLaidOutAnew) {
  StepUntil(State::kCounterfactual);
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  const auto step = [this] {
    arena_.BeginStep(true);
    void* const first = Ask(1024);
    void* const second = Ask(2048);
    EXPECT_NE(second, kept_);
    FreeKept();
    Free(first);
    Free(second);
    kept_ = Ask(512);
  };
  int steps = 0;
  for (; arena_.facts().state == State::kCounterfactual; ++steps) step();
  EXPECT_EQ(arena_.facts().state, State::kServing) << arena_.facts().reason;
  EXPECT_EQ(steps, 5) << "two until it is seen, and those that are clean";
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048 + 512});
  EXPECT_EQ(arena_.facts().retreats, 0);
  step();
  EXPECT_EQ(arena_.facts().counts.occupied, 0);
}

TEST_F(StepArenaTest, StepsThatRepeatOtherwiseAreLaidOutAnew) {
  StepUntil(State::kCounterfactual);
  int steps = 0;
  for (; arena_.facts().state != State::kServing && steps < 20; ++steps) {
    Step(4096);
  }
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(arena_.facts().height, Bytes{4096 + 8192});
  EXPECT_EQ(arena_.facts().retreats, 0);
}

TEST_F(StepArenaTest, StepsThatTakeTurnsAreGivenUp) {
  StepUntil(State::kCounterfactual);
  for (int i = 0; arena_.facts().retreats == 0 && i < 40; ++i) {
    Step(i % 2 == 0 ? 1024 : 4096);
    EXPECT_NE(arena_.facts().state, State::kServing);
  }
  EXPECT_EQ(arena_.facts().retreats, 1);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
}

}  // namespace
}  // namespace ebbtide
