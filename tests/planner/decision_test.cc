#include "planner/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Decision DecisionOf(const Profile& profile, const std::vector<Action>& actions,
                    int value) {
  const auto decisions = ExplainPlan(profile, {.actions = actions}, 10);
  EXPECT_EQ(decisions.status(), absl::OkStatus());
  for (const Decision& decision : *decisions) {
    if (decision.value == value) return decision;
  }
  ADD_FAILURE() << "no decision on value " << value;
  return {};
}

// Times in milliseconds, as a recorded profile has them in nanoseconds.
Profile InMilliseconds() {
  Profile p = ThreeOps();
  for (Op& op : p.ops) op.time *= 1e6;
  for (Stage& stage : p.stages) stage.time *= 1e6;
  return p;
}

TEST(DecisionTest, LargestFirstAndNoMoreThanAsked) {
  const auto decisions = ExplainPlan(ThreeOps(), {.actions = kKeep}, 2);
  ASSERT_EQ(decisions.status(), absl::OkStatus());
  ASSERT_EQ(decisions->size(), 2);
  EXPECT_EQ((*decisions)[0].value, 1);
  EXPECT_EQ((*decisions)[1].value, 0);
  EXPECT_EQ(ValueName(ThreeOps(), 1), "b (op 1)");
}

TEST(DecisionTest, WhatIsKeptThoughItCouldGo) {
  const Decision b = DecisionOf(InMilliseconds(), kKeep, 1);
  EXPECT_EQ(b.fate, Fate::kKept);
  EXPECT_EQ(b.recipe, 10e6);
  EXPECT_EQ(b.recipe_ops, 1);
  EXPECT_EQ(b.reason,
            "the plan holds its budget with it; its recipe takes 10 ms (1 op)");
}

TEST(DecisionTest, WhatIsKeptBecauseItCannotGo) {
  Profile p = InMilliseconds();
  p.ops[1].replayable = false;
  EXPECT_EQ(DecisionOf(p, kKeep, 1).reason,
            "op 1 make_b does not replay, and there is no tier to copy it to");
  // A lane changes that.
  p.d2h = p.h2d = 8e-6;
  EXPECT_EQ(DecisionOf(p, kKeep, 1).reason,
            "the plan holds its budget with it; op 1 make_b does not replay, "
            "its copies take 1 ms out and 1 ms back");
  p.values[1].released = 4;  // stage 1, its last use
  EXPECT_EQ(DecisionOf(p, kKeep, 1).reason,
            "the script holds it until its last use");
  p.stages[0].needs = {2};
  p.stages[1].needs = {0};
  EXPECT_EQ(DecisionOf(p, kKeep, 1).reason, "no backward op asks for it");
}

TEST(DecisionTest, WhatIsRecomputed) {
  Profile p = InMilliseconds();
  Decision b = DecisionOf(p, kRebuild, 1);
  EXPECT_EQ(b.fate, Fate::kRecomputed);
  EXPECT_EQ(b.reruns, 1);
  EXPECT_EQ(b.reason,
            "its recipe takes 10 ms (1 op); there is no tier to copy it to");
  p.d2h = 8e-6;
  p.h2d = 4e-6;
  b = DecisionOf(p, kRebuild, 1);
  EXPECT_EQ(b.out, 1e6);
  EXPECT_EQ(b.back, 2e6);
  EXPECT_EQ(b.reason,
            "its recipe takes 10 ms (1 op); its copies take 1 ms out and 2 ms "
            "back");
}

// Without copies the plan of three ops and three stages takes 90 ms. The copy
// out begins at 20, the copy back at 50, where stage 1 needs it at once.
TEST(DecisionTest, WhatIsOffloadedAndWhatTheComputeWaits) {
  Profile p = InMilliseconds();
  p.d2h = 4.0 / 20e6;
  p.h2d = 4.0 / 5e6;
  const Decision a = DecisionOf(p, kMove, 0);
  EXPECT_EQ(a.fate, Fate::kOffloaded);
  EXPECT_EQ(a.out, 20e6);
  EXPECT_EQ(a.back, 5e6);
  EXPECT_EQ(a.waits, 5e6);
  EXPECT_EQ(a.reason,
            "its copies take 20 ms out and 5 ms back, of which the compute "
            "waits for 5 ms; its recipe takes 10 ms (1 op)");
  // Restored a stage earlier it is hidden.
  std::vector<Action> early = kMove;
  std::swap(early[4], early[6]);
  std::swap(early[5], early[6]);
  const Decision hidden = DecisionOf(p, early, 0);
  EXPECT_EQ(hidden.waits, 0);
  EXPECT_THAT(hidden.reason, HasSubstr("5 ms back, hidden behind the compute"));
}

TEST(DecisionTest, WhatAutogradDoesNotSaveIsPartOfTheRecipe) {
  Profile p = InMilliseconds();
  p.values[1].saved = p.values[1].retainable = p.values[1].movable = false;
  p.stages[0].needs = {2};
  p.stages[1].needs = {0};
  const std::vector<Action> keep = {
      {Action::Do::kForward, 0},  {Action::Do::kForward, 1},
      {Action::Do::kForward, 2},  {Action::Do::kBackward, 0},
      {Action::Do::kFree, 2},     {Action::Do::kBackward, 1},
      {Action::Do::kBackward, 2}, {Action::Do::kFree, 0}};
  const Decision c = DecisionOf(p, keep, 2);
  EXPECT_EQ(c.recipe_ops, 2);
  EXPECT_EQ(c.recipe, 20e6);
  p.ops[1].replayable = false;
  EXPECT_EQ(DecisionOf(p, keep, 2).blocker, 1);
}

TEST(DecisionTest, FatesAreThoseOfThePlan) {
  EXPECT_THAT(FatesOf(ThreeOps(), {.actions = kRebuild}),
              ElementsAre(Fate::kKept, Fate::kRecomputed, Fate::kKept));
  EXPECT_THAT(FatesOf(ThreeOps(), {.actions = kMove}),
              ElementsAre(Fate::kOffloaded, Fate::kKept, Fate::kKept));
}

TEST(DecisionTest, APlanOfAnotherProfileIsRefused) {
  const std::vector<Action> other = {{Action::Do::kForward, 7}};
  EXPECT_EQ(ExplainPlan(ThreeOps(), {.actions = other}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebbtide
