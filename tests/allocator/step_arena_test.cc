#include "allocator/step_arena.h"

#include <functional>
#include <map>
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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);
constexpr int64_t kApart = 1 << 20;  // of runs

class Memory final : public ArenaMemory {
 public:
  absl::Status TakeHoles(std::vector<ArenaRun>* runs) override {
    for (const Bytes size : holes) runs->push_back(Run(size));
    return failure;
  }
  absl::Status Take(Bytes size, std::vector<ArenaRun>* runs) override {
    if (!has_any) return absl::ResourceExhaustedError("no memory");
    runs->push_back(Run(size));
    return absl::OkStatus();
  }
  absl::Status Shorten(Bytes size, ArenaRun* run) override {
    if (Count(run->size - size) < least_rest) return absl::OkStatus();
    EXPECT_EQ(taken.erase(run->base), 1);
    *run = {};
    if (may_be_shortened) *run = Run(size);
    return may_be_shortened ? absl::OkStatus() : absl::UnavailableError("gone");
  }
  std::optional<ArenaRun> TakeFor(Bytes size, int) override {
    if (!carries) return std::nullopt;
    return Run(size);
  }
  bool GiveBack(absl::Span<const ArenaRun> runs) override {
    if (!may_be_given_back) return false;
    for (const ArenaRun& run : runs) {
      EXPECT_EQ(taken.erase(run.base), 1);
    }
    return true;
  }

  bool has_any = true;
  bool carries = false;
  absl::Status failure;  // of the holes, once they are taken
  bool may_be_given_back = true;
  int64_t least_rest = 4096;  // that a run can be shorter by
  bool may_be_shortened = true;
  std::vector<Bytes> holes;
  std::map<char*, Bytes> taken;

 private:
  ArenaRun Run(Bytes size) {
    char* const base = kBase + kApart * next_++;
    taken[base] = size;
    return {.base = base, .size = size};
  }

  int64_t next_ = 0;
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

  // By distance from kBase: a char* is not printed.
  std::map<int64_t, Bytes> Taken() const {
    std::map<int64_t, Bytes> taken;
    for (const auto& [base, size] : memory_.taken) taken[base - kBase] = size;
    return taken;
  }

  Memory memory_;
  NoOrder order_;
  StepArena arena_{&memory_, &order_};
  int64_t next_ = int64_t{1} << 30;
  void* kept_ = nullptr;
};

TEST_F(StepArenaTest, ItThinksForSomeStepsBeforeItServes) {
  StepUntil(State::kCounterfactual);
  EXPECT_THAT(memory_.taken, IsEmpty());
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  EXPECT_EQ(arena_.facts().bound, Bytes{2048});
  Step();
  Step();
  EXPECT_EQ(arena_.facts().state, State::kCounterfactual);
  EXPECT_EQ(arena_.facts().counts.planned, 4) << "of the steps that are over";
  Step();
  EXPECT_EQ(arena_.facts().state, State::kServing);
  EXPECT_EQ(arena_.facts().counts.planned, 2)
      << "the step is served that it begins with";
  EXPECT_FALSE(arena_.Owns(kept_)) << "it is alive when steps begin";
  EXPECT_THAT(Taken(), ElementsAre(Pair(0, Bytes{2048})));
}

TEST_F(StepArenaTest, HolesAreServedFromBeforeARunOfItsOwn) {
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

TEST_F(StepArenaTest, WhatAPlanLeavesOfAHoleGoesBack) {
  memory_.holes = {Bytes{8192}};
  StepUntil(State::kServing);
  EXPECT_THAT(Taken(), ElementsAre(Pair(kApart, Bytes{2048})));
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  arena_.BeginStep(true);
  EXPECT_EQ(Ask(1024), kBase + kApart) << "where the shorter one is";
  Free(kBase + kApart);
}

TEST_F(StepArenaTest, WhatIsAliveWhenStepsBeginLiesInTheEndOfAHole) {
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

TEST_F(StepArenaTest, WithoutWhatIsLeftOfAHoleItStaysInThought) {
  memory_.holes = {Bytes{512}, Bytes{8192}};
  memory_.may_be_shortened = false;
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_EQ(arena_.facts().reason, "gone");
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaTest, WithoutMemoryForTheRestItGivesTheHolesBack) {
  memory_.holes = {Bytes{1024}};
  memory_.has_any = false;
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_EQ(arena_.facts().reason, "no memory");
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaTest, HolesThatMayStillBeInUseAreGivenBack) {
  memory_.holes = {Bytes{1024}};
  memory_.failure = absl::UnavailableError("still in use");
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(arena_.facts().reason, "still in use");
  EXPECT_EQ(arena_.facts().retreats, StepArena::kMostRetreats);
  EXPECT_THAT(memory_.taken, IsEmpty());
}

TEST_F(StepArenaTest, AServedStepIsServedWhole) {
  StepUntil(State::kServing);
  for (int i = 0; i < 50; ++i) Step();
  const StepArena::Facts facts = arena_.facts();
  EXPECT_EQ(facts.state, State::kServing);
  EXPECT_EQ(facts.counts.planned, 2 * 51);
  EXPECT_EQ(facts.counts.planned_bytes, 51 * (1024 + 2048));
  EXPECT_EQ(facts.counts.unplaced, 51);
  EXPECT_TRUE(facts.mismatches_by_op.empty());
  EXPECT_EQ(facts.counts.fallback + facts.counts.occupied, 0);
}

TEST_F(StepArenaTest, WhatIsAliveWhenStepsBeginGetsARunOfItsOwn) {
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

TEST_F(StepArenaTest, WithoutMemoryItStaysInThought) {
  memory_.has_any = false;
  for (int i = 0; i < 40; ++i) Step();
  EXPECT_EQ(arena_.facts().state, State::kOff);
  EXPECT_EQ(arena_.facts().reason, "no memory");
  EXPECT_EQ(arena_.facts().retreats, StepArena::kMostRetreats);
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

// Both blocks of a step at once, which were one after the other before.
TEST_F(StepArenaTest, WhatLivesLongerThanItDidIsLaidOutAnew) {
  StepUntil(State::kCounterfactual);
  EXPECT_EQ(arena_.facts().height, Bytes{2048});
  const auto step = [this] {
    arena_.BeginStep(true);
    void* const first = Ask(1024);
    if (kept_ != nullptr) Free(std::exchange(kept_, nullptr));
    void* const second = Ask(2048);
    EXPECT_NE(first, second);
    Free(first);
    Free(second);
    kept_ = Ask(512);
  };
  int steps = 0;
  for (; arena_.facts().state == State::kCounterfactual; ++steps) step();
  EXPECT_EQ(arena_.facts().state, State::kServing) << arena_.facts().reason;
  EXPECT_EQ(steps, 6) << "two that are not clean, and those that are";
  EXPECT_EQ(arena_.facts().height, Bytes{1024 + 2048});
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
  EXPECT_EQ(arena_.facts().height, Bytes{8192});
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
