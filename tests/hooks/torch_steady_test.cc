#include "hooks/steady.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "planner/simulate.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;

// Each op of ThreeOps saves its output, value and storage alike.
std::vector<SaveMark> Saves() {
  return {{.storage = 0, .op = 0},
          {.storage = 1, .op = 1},
          {.storage = 2, .op = 2}};
}

// Op `last` is the last to read `a`, which is offloaded behind it and leaves by
// the instant `departure`.
SteadyPlan PlanThatOffloadsA(int last, int departure) {
  using Do = Action::Do;
  Profile profile = ThreeOps();
  profile.values[0].released = last;
  std::vector<Action> actions = {{Do::kForward, 0},  {Do::kForward, 1},
                                 {Do::kForward, 2},  {Do::kBackward, 0},
                                 {Do::kFree, 2},     {Do::kRestore, 0},
                                 {Do::kBackward, 1}, {Do::kFree, 1},
                                 {Do::kBackward, 2}, {Do::kFree, 0}};
  actions.insert(actions.begin() + last + 1, {Do::kOffload, 0});
  const Simulation simulation = {.curve = std::vector<Bytes>(7),
                                 .departures = {departure}};
  return *MakeSteadyPlan(Saves(), {profile, {0, 1, 2}}, {.actions = actions},
                         simulation);
}

// Instants are three ops, three stages and the tail; in the steady state three
// saves and three stages.
TEST(SteadyPlanTest, OffloadBeginsAtTheSaveBehindTheLastRead) {
  const SteadyPlan plan = PlanThatOffloadsA(/*last=*/1, /*departure=*/5);
  ASSERT_THAT(plan.spills, testing::SizeIs(1));
  EXPECT_EQ(plan.spills[0].before_save, 2);
  EXPECT_EQ(plan.spills[0].storage, 0);
  EXPECT_THAT(plan.has_spills, ElementsAre(false, false, true));
}

TEST(SteadyPlanTest, BytesThatLeaveBeforeAStageThatAsksAreGoneByThen) {
  for (const int stage : {3, 4}) {
    EXPECT_EQ(PlanThatOffloadsA(/*last=*/1, stage).spills[0].until, stage);
  }
}

// The save of an op's output is made when the output is there: what is to leave
// before op 2 has to be gone by the save of op 1.
TEST(SteadyPlanTest, BytesThatLeaveBeforeAnOpAreGoneBeforeItsOutputIsThere) {
  const SteadyPlan plan = PlanThatOffloadsA(/*last=*/0, /*departure=*/2);
  EXPECT_EQ(plan.spills[0].before_save, 1);
  EXPECT_EQ(plan.spills[0].until, 1);
}

TEST(SteadyPlanTest, BytesLeaveNoEarlierThanTheirOffloadBegins) {
  EXPECT_EQ(PlanThatOffloadsA(/*last=*/1, /*departure=*/2).spills[0].until, 2);
}

TEST(SteadyRunTest, SaysAtWhichSavesAnOffloadBeginsOrEnds) {
  const auto plan = std::make_shared<SteadyPlan>(
      PlanThatOffloadsA(/*last=*/0, /*departure=*/2));
  plan->has_spills[2] = true;  // where another would end
  SteadyRun run(plan);
  EXPECT_FALSE(run.Reach(0));
  EXPECT_TRUE(run.Reach(1));
  EXPECT_EQ(run.instant(), 1);
  EXPECT_TRUE(run.Reach(2));
  EXPECT_FALSE(run.Reach(3)) << "a save more than planned";
}

}  // namespace
}  // namespace ebbtide
