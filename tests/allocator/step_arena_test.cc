#include "allocator/step_arena.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using State = StepArena::State;
using testing::HasSubstr;

char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);

class Memory final : public ArenaMemory {
 public:
  absl::StatusOr<char*> Take(Bytes size) override {
    if (!has_any) return absl::ResourceExhaustedError("no memory");
    ++taken;
    last = size;
    return kBase;
  }
  bool GiveBack(char* base) override {
    EXPECT_EQ(base, kBase);
    if (!may_be_given_back) return false;
    --taken;
    return true;
  }

  bool has_any = true;
  bool may_be_given_back = true;
  int taken = 0;
  Bytes last{};
};

class NoOrder final : public ArenaOrder {
 public:
  absl::Status NoteEnd(int, absl::Span<const int>) override {
    return absl::OkStatus();
  }
  absl::Status RunBehind(int, int) override { return absl::OkStatus(); }
  absl::Status RunBehindAll(int) override { return absl::OkStatus(); }
};

// A program on an allocator that never has the same address twice.
class StepArenaTest : public testing::Test {
 protected:
  void* Ask(int64_t size) {
    void* block = arena_.Allocate(Bytes{size}, 0);
    if (block == nullptr && arena_.IsLeaving()) {
      block = arena_.AllocateAnywhere(Bytes{size}, 0);
    }
    if (block != nullptr) return block;
    block = reinterpret_cast<void*>(next_ += 4096);
    arena_.OnAllocate(block, Bytes{size}, 0);
    return block;
  }
  void Free(void* block) {
    if (arena_.Owns(block)) {
      EXPECT_TRUE(arena_.Free(block, {}));
    } else {
      arena_.OnFree(block);
    }
  }
  // Two blocks after each other, one that lives into the next step.
  void Step(int64_t size = 1024, bool is_wanted = true) {
    arena_.BeginStep(is_wanted);
    Free(Ask(size));
    if (kept_ != nullptr) Free(std::exchange(kept_, nullptr));
    Free(Ask(2 * size));
    kept_ = Ask(512);
  }
  void StepUntil(State state) {
    for (int i = 0; i < 20 && arena_.facts().state != state; ++i) Step();
    ASSERT_EQ(arena_.facts().state, state) << arena_.facts().reason;
  }

  Memory memory_;
  NoOrder order_;
  StepArena arena_{&memory_, &order_};
  int64_t next_ = int64_t{1} << 30;
  void* kept_ = nullptr;
};

TEST_F(StepArenaTest, ItThinksForSomeStepsBeforeItServes) {
  StepUntil(State::kCounterfactual);
  EXPECT_EQ(memory_.taken, 0);
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  EXPECT_EQ(arena_.facts().bound, Bytes{2048});
  Step();
  Step();
  EXPECT_EQ(arena_.facts().state, State::kCounterfactual);
  EXPECT_EQ(arena_.facts().counts.planned, 6) << "of the steps that are over";
  Step();
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(memory_.taken, 1);
  EXPECT_EQ(memory_.last, Bytes{2048});
  EXPECT_TRUE(arena_.Owns(kept_)) << "the step is served that it begins with";
}

TEST_F(StepArenaTest, AServedStepIsServedWhole) {
  StepUntil(State::kServing);
  for (int i = 0; i < 50; ++i) Step();
  const StepArena::Facts facts = arena_.facts();
  EXPECT_EQ(facts.state, State::kServing);
  EXPECT_EQ(facts.counts.planned, 3 * 51);
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
  Step(4096);
  Step(4096);
  memory_.may_be_given_back = false;
  arena_.BeginStep(true);
  EXPECT_EQ(arena_.facts().state, State::kLeaving);
  EXPECT_THAT(arena_.facts().reason, HasSubstr("2 requests were not expected"));
  void* const stray = Ask(1024);
  EXPECT_TRUE(arena_.Owns(stray));
  Free(stray);
  Free(std::exchange(kept_, nullptr));
  EXPECT_EQ(arena_.facts().state, State::kLeaving);
  EXPECT_EQ(memory_.taken, 1);
  memory_.may_be_given_back = true;
  arena_.BeginStep(true);
  EXPECT_EQ(memory_.taken, 0);
  EXPECT_EQ(arena_.base(), nullptr);
  StepUntil(State::kServing);
}

TEST_F(StepArenaTest, ItIsOffAfterSomeRetreats) {
  for (int i = 0; i < StepArena::kMostRetreats; ++i) {
    StepUntil(State::kServing);
    for (int k = 0; k < 4; ++k) Step(4096);
  }
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_EQ(memory_.taken, 0);
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  Step(1024, /*is_wanted=*/false);
  StepUntil(State::kServing);
}

TEST_F(StepArenaTest, WithoutMemoryItStaysInThought) {
  memory_.has_any = false;
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_EQ(arena_.facts().reason, "no memory");
  EXPECT_EQ(arena_.facts().retreats, StepArena::kMostRetreats);
}

TEST_F(StepArenaTest, WhereItIsNotWantedItDoesNotEvenThink) {
  for (int i = 0; i < 20; ++i) Step(1024, /*is_wanted=*/false);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().height, Bytes{0});
}

TEST_F(StepArenaTest, WhatLivesLongerThanItDidKeepsItFromServing) {
  StepUntil(State::kCounterfactual);
  // As recorded but for the order of frees: never clean.
  std::vector<void*> longer;
  for (int i = 0; i < 6; ++i) {
    arena_.BeginStep(true);
    void* const first = Ask(1024);
    if (kept_ != nullptr) Free(std::exchange(kept_, nullptr));
    void* const second = Ask(2048);
    Free(first);
    Free(second);
    kept_ = Ask(512);
    EXPECT_EQ(arena_.facts().state, State::kCounterfactual);
    EXPECT_EQ(arena_.facts().counts.occupied, i);
  }
  EXPECT_EQ(memory_.taken, 0);
}

}  // namespace
}  // namespace ebbtide
