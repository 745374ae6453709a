#include "hooks/steady.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// `a` is offloaded behind b, which the script reads it for, and leaves by the
// instant `departure`.
SteadyPlan PlanThatOffloadsA(int departure) {
  using Do = Action::Do;
  const std::vector<Action> actions = {
      {Do::kForward, 0},  {Do::kForward, 1},  {Do::kOffload, 0},
      {Do::kForward, 2},  {Do::kBackward, 0}, {Do::kFree, 2},
      {Do::kRestore, 0},  {Do::kBackward, 1}, {Do::kFree, 1},
      {Do::kBackward, 2}, {Do::kFree, 0}};
  const Simulation simulation = {.curve = std::vector<Bytes>(7),
                                 .departures = {departure}};
  return *MakeSteadyPlan(Saves(), {ThreeOps(), {0, 1, 2}}, {.actions = actions},
                         simulation);
}

// Instants are three ops, three stages and the tail; in the steady state three
// saves and three stages.
TEST(SteadyPlanTest, OffloadBeginsAtTheSaveBehindTheLastRead) {
  const SteadyPlan plan = PlanThatOffloadsA(/*departure=*/5);
  ASSERT_THAT(plan.spills, testing::SizeIs(1));
  EXPECT_EQ(plan.spills[0].before_save, 2);
  EXPECT_EQ(plan.spills[0].storage, 0);
  EXPECT_THAT(plan.has_spills, ElementsAre(false, false, true));
}

TEST(SteadyPlanTest, BytesThatLeaveBeforeAStageThatAsksAreGoneByThen) {
  EXPECT_EQ(PlanThatOffloadsA(/*departure=*/3).spills[0].until, 3);
  EXPECT_EQ(PlanThatOffloadsA(/*departure=*/4).spills[0].until, 4);
}

// The save of an op's output is made when the output is there: what is to leave
// before the op has to be gone by the save before that one.
TEST(SteadyPlanTest, BytesThatLeaveBeforeAnOpAreGoneBeforeItsOutputIsThere) {
  const SteadyPlan plan = PlanThatOffloadsA(/*departure=*/2);
  EXPECT_EQ(plan.spills[0].until, 2) << "not before it begins";
  SteadyRun run(std::make_shared<const SteadyPlan>(plan));
  EXPECT_FALSE(run.Reach(0));
  EXPECT_FALSE(run.Reach(1));
  EXPECT_TRUE(run.Reach(2));
  EXPECT_EQ(run.instant(), 2);
}

}  // namespace
}  // namespace ebbtide
