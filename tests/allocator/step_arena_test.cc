#include "allocator/arena/step_arena.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/fake_pages.h"

namespace ebbtide {
namespace {

using State = StepArena::State;
using testing::HasSubstr;
using testing::SizeIs;

std::string current_op;
std::string CurrentOp() { return current_op; }

class StepArenaTest : public testing::Test {
 protected:
  void SetUp() override {
    current_op = "";
    ASSERT_TRUE(page_arena_.Reserve(Bytes{1 << 24}).ok());
  }
  void TearDown() override {
    EXPECT_EQ(pages_.problem(), "");
    EXPECT_TRUE(ArenaCheck::Holds(page_arena_));
  }

  void* Ask(int64_t size) {
    void* const block = arena_.Allocate(Bytes{size}, 0);
    EXPECT_NE(block, nullptr);
    pages_.Take(block, size, 0);
    return block;
  }
  // That no step has among its requests.
  void* AskBeside(int64_t size) {
    void* const block = page_arena_.Allocate(Bytes{size}, 0);
    EXPECT_NE(block, nullptr);
    pages_.Take(block, size, 0);
    return block;
  }
  void Free(void* block) {
    pages_.Give(block, {});
    EXPECT_TRUE(arena_.Free(block, {}));
  }
  // Two blocks that are alive at once, and one that lives into the next step,
  // until the second of those comes.
  void Step(int64_t size = 1024, int64_t plan = 1) {
    arena_.BeginStep(plan);
    void* const first = Ask(size);
    FreeKept();
    Free(Ask(2 * size));
    Free(first);
    kept_ = Ask(512);
  }
  void FreeKept() {
    if (kept_ != nullptr) Free(std::exchange(kept_, nullptr));
  }
  void StepUntil(State state) {
    for (int i = 0; i < 20 && arena_.facts().state != state; ++i) Step();
    ASSERT_EQ(arena_.facts().state, state) << arena_.facts().reason;
  }
  ArenaCounts Counts() const { return arena_.facts().pages.counts; }

  FakePages pages_;
  PageArena page_arena_{&pages_, &pages_};
  StepArena arena_{&page_arena_, &CurrentOp};
  void* kept_ = nullptr;
};

TEST_F(StepArenaTest, TheThirdOfEqualStepsIsServed) {
  Step();
  Step();
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(Counts().planned, 0);
  Step();
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  EXPECT_EQ(arena_.facts().bound, Bytes{1024 + 2048});
  EXPECT_EQ(Counts().planned, 3) << "the step is served that it begins with";
}

TEST_F(StepArenaTest, AServedStepIsServedWhole) {
  StepUntil(State::kServing);
  for (int i = 0; i < 50; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(Counts().planned, 3 * 51);
  EXPECT_EQ(Counts().planned_bytes, 51 * (1024 + 2048 + 512));
  EXPECT_TRUE(arena_.facts().mismatches_by_op.empty());
  EXPECT_EQ(Counts().occupied, 0);
  EXPECT_EQ(arena_.facts().pages.elsewhere, 0);
  EXPECT_EQ(arena_.facts().pages.moves, 0);
}

TEST_F(StepArenaTest, PlanThatFindsNoRoomIsNotServed) {
  const auto step_beside_another_block = [&](int64_t plan) {
    Step(1024, plan);
    FreeKept();
    kept_ = AskBeside(2048);
  };
  pages_.limit = 1;
  for (int i = 0; i < 20; ++i) step_beside_another_block(/*plan=*/1);
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_EQ(arena_.facts().reason, "3.00 KiB of addresses find no room");
  EXPECT_EQ(arena_.facts().lacking, Bytes{1024});
  EXPECT_EQ(Counts().planned, 0);
  step_beside_another_block(/*plan=*/2);
  EXPECT_EQ(arena_.facts().state, State::kRecording)
      << "another plan of the job's is a new begin";
  EXPECT_EQ(arena_.facts().lacking, Bytes{0});
}

TEST_F(StepArenaTest, OneOtherStepDoesNotEndThePlan) {
  StepUntil(State::kServing);
  for (int i = 0; i < 5; ++i) {
    Step(4096);
    Step();
  }
  EXPECT_EQ(arena_.facts().state, State::kServing);
}

TEST_F(StepArenaTest, StepsThatNeverRepeatEndThePlanAndItsBlocksStay) {
  StepUntil(State::kServing);
  arena_.BeginStep(/*plan=*/1);
  void* const held = Ask(1024);
  for (int i = 1; i < StepArena::kBadSteps; ++i) Step(4096 * i);
  FreeKept();
  arena_.BeginStep(/*plan=*/1);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_THAT(arena_.facts().reason, HasSubstr("2 requests were not expected"));
  EXPECT_EQ(arena_.facts().pages.planned, Bytes{0});
  Free(held);
  StepUntil(State::kServing);
}

TEST_F(StepArenaTest, ItIsOffAfterSomeRetreats) {
  for (int i = 0; i < StepArena::kMostRetreats; ++i) {
    StepUntil(State::kServing);
    for (int k = 0; k <= StepArena::kBadSteps; ++k) Step(2048 * (k + 1));
  }
  EXPECT_EQ(arena_.facts().state, State::kOff);
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  Step(1024, /*plan=*/0);
  StepUntil(State::kServing);
}

TEST_F(StepArenaTest, StepsThatRepeatOtherwiseAreLaidOutAnewWhileServed) {
  StepUntil(State::kServing);
  for (int i = 0; i < 5; ++i) Step(4096);
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(arena_.facts().height, Bytes{4096 + 8192});
  const int64_t before = Counts().planned;
  for (int i = 0; i < 5; ++i) Step(4096);
  EXPECT_EQ(Counts().planned, before + 5 * 3);
  EXPECT_EQ(arena_.facts().retreats, 0);
}

TEST_F(StepArenaTest, AnotherPlanOfTheJobEndsTheLayoutAtOnce) {
  StepUntil(State::kServing);
  Step(4096, /*plan=*/2);
  EXPECT_EQ(arena_.facts().state, State::kServing);
  Step(4096, /*plan=*/2);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().retreats, 0);
  for (int i = 0; i < 5; ++i) Step(4096, /*plan=*/2);
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(arena_.facts().height, Bytes{4096 + 8192});
}

TEST_F(StepArenaTest, APlanThatIsGivenUpEndsBeforeTheNextOnesFirstStep) {
  StepUntil(State::kServing);
  void* const held = std::exchange(kept_, nullptr);
  const auto first_step = [&] {
    arena_.BeginStep(/*plan=*/1);
    arena_.EndPlan();
    Free(Ask(4096));
  };
  first_step();
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().pages.planned, Bytes{0});
  Free(held);
  // It has been traced: one more like it, and the next one is served.
  for (int i = 0; i < 2; ++i) {
    arena_.BeginStep(/*plan=*/2);
    Free(Ask(4096));
  }
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(arena_.facts().height, Bytes{4096});
  EXPECT_EQ(arena_.facts().retreats, 0);
}

TEST_F(StepArenaTest, AnotherPlanWithTheSameStepsIsServedOn) {
  StepUntil(State::kServing);
  const int64_t before = Counts().planned;
  for (int i = 0; i < 5; ++i) Step(1024, /*plan=*/2);
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(Counts().planned, before + 5 * 3);
}

TEST_F(StepArenaTest, StepsThatChangeForEverAreLaidOutAnewFewTimes) {
  StepUntil(State::kServing);
  int layouts = 0;
  Bytes height = arena_.facts().height;
  for (int i = 0; i < 100 && arena_.facts().state == State::kServing; ++i) {
    Step(512 * (3 + i / 4));
    if (std::exchange(height, arena_.facts().height) != height) ++layouts;
  }
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_LE(layouts, 4);
}

TEST_F(StepArenaTest, AnOpThatDoesNotKeepToThePlanIsNamed) {
  const auto step = [&](int64_t size) {
    arena_.BeginStep(/*plan=*/1);
    current_op = "aten::mm";
    Free(Ask(size));
  };
  while (arena_.facts().state != State::kServing) step(1024);
  step(2000);
  // Without a name it is the op that the plan has there.
  arena_.BeginStep(/*plan=*/1);
  current_op = "";
  Free(Ask(3000));
  current_op = "aten::add";
  Free(Ask(4000));
  const auto by_op = arena_.facts().mismatches_by_op;
  ASSERT_THAT(by_op, SizeIs(2));
  EXPECT_EQ(by_op.at("aten::mm").requests, 2);
  EXPECT_EQ(by_op.at("aten::mm").bytes, 5000);
  EXPECT_EQ(by_op.at("aten::add").requests, 1);
}

TEST_F(StepArenaTest, WhereAPlanIsNotWantedNoneIsLaidOut) {
  for (int i = 0; i < 20; ++i) Step(1024, /*plan=*/0);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().height, Bytes{0});
}

// The block that is alive when the next step begins outlives its second
// request, which it did not before.
TEST_F(StepArenaTest, BlocksThatLiveLongerThanTheyDidAreLaidOutAnew) {
  StepUntil(State::kServing);
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  const auto step = [this] {
    arena_.BeginStep(/*plan=*/1);
    void* const first = Ask(1024);
    void* const second = Ask(2048);
    FreeKept();
    Free(first);
    Free(second);
    kept_ = Ask(512);
  };
  int steps = 0;
  while (arena_.facts().height == Bytes{1024 + 2048} && ++steps < 20) step();
  EXPECT_EQ(steps, 4) << "two until it is seen";
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048 + 512});
  EXPECT_EQ(arena_.facts().state, State::kServing) << arena_.facts().reason;
  EXPECT_EQ(arena_.facts().retreats, 0);
  const int64_t occupied = Counts().occupied;
  step();
  EXPECT_EQ(Counts().occupied, occupied);
}

// A step that is recorded while memory is short frees a block early, and makes
// requests that others do not make. No two steps in a row are the same then.
TEST_F(StepArenaTest, OneStepThatIsNearlyAsPlannedShowsLongerLives) {
  const auto step = [this](bool is_early, int others) {
    arena_.BeginStep(/*plan=*/1);
    void* const first = Ask(1024);
    for (int i = 0; i < others; ++i) Free(Ask(4096));
    if (is_early) Free(first);
    Free(Ask(2048));
    if (!is_early) Free(first);
    for (int i = 0; i < 200; ++i) Free(Ask(1024));
  };
  while (arena_.facts().state != State::kServing) step(/*is_early=*/true, 0);
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  step(/*is_early=*/false, 1);
  EXPECT_GT(Counts().occupied, 0);
  step(/*is_early=*/false, 0);
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
  const int64_t occupied = Counts().occupied;
  step(/*is_early=*/false, 1);
  EXPECT_EQ(Counts().occupied, occupied);
  EXPECT_EQ(arena_.facts().retreats, 0);
}

TEST_F(StepArenaTest, StepsThatTakeTurnsAreServedByDemand) {
  for (int i = 0; i < 40; ++i) {
    Step(i % 2 == 0 ? 4096 : 1024);
    EXPECT_EQ(arena_.facts().state, State::kRecording);
  }
  EXPECT_EQ(arena_.facts().retreats, 0);
}

TEST_F(StepArenaTest, ThePlanEndsForARequestThatNeedsItsHoles) {
  StepUntil(State::kServing);
  FreeKept();
  page_arena_.GiveBack(Bytes{1 << 24}, /*of_plan=*/true);
  pages_.limit = 1;
  arena_.BeginStep(/*plan=*/1);
  void* const first = Ask(1024);
  EXPECT_EQ(arena_.Allocate(Bytes{1536}, 0), nullptr);
  void* const block = arena_.Allocate(Bytes{1536}, 0, /*is_last=*/true);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(arena_.facts().state, State::kRecording);
  EXPECT_EQ(arena_.facts().retreats, 1);
  Free(first);
  EXPECT_TRUE(arena_.Free(block, {}));
}

}  // namespace
}  // namespace ebbtide
