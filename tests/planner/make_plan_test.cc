#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/plan.h"
#include "planner/validate.h"
#include "tests/planner/graph_oracle.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_walk.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

PlanOptions Quick(int64_t budget) {
  PlanOptions options;
  options.budget = Bytes{budget};
  options.evaluations = 1500;
  return options;
}

TEST(MakePlanTest, KeepsAllWhereThatFits) {
  const auto plan = MakePlan(ThreeOps(), Quick(15));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_TRUE(plan->feasible);
  EXPECT_EQ(plan->time, 90);
  EXPECT_EQ(plan->lower_bound_time, 90);
  EXPECT_EQ(plan->peak, Bytes{15});
}

TEST(MakePlanTest, SaysWhatWouldDoWhereNothingFits) {
  const auto plan = MakePlan(ThreeOps(), Quick(12));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_FALSE(plan->feasible);
  // b is made from a: 4 + 8 + 1 at op 1 whatever the plan.
  EXPECT_EQ(plan->least_budget, Bytes{13});
  EXPECT_EQ(plan->floor_witness, "op 1 make_b");
  const auto floor = Floor(ThreeOps(), Quick(0));
  ASSERT_EQ(floor.status(), absl::OkStatus());
  EXPECT_EQ(floor->bytes, Bytes{13});
  EXPECT_EQ(floor->name, "op 1 make_b");
}

TEST(MakePlanTest, RefusesWrongOptionsAndProfiles) {
  PlanOptions options = Quick(15);
  options.solver = "minpeak";
  EXPECT_THAT(
      std::string(MakePlan(ThreeOps(), options).status().message()),
      HasSubstr("expected auto, graph, hierarchical, rotor, floating, "
                "unpinned, unpinned-floating, rockmate, "
                "rockmate-unpinned, demand, dtr or keep for a profile"));
  EXPECT_THAT(std::string(MakePlan(ThreeOps(), Quick(0)).status().message()),
              HasSubstr("budget: expected more than 0"));
  Profile p = ThreeOps();
  p.values[1].saved = false;
  p.ops[1].replayable = false;
  EXPECT_THAT(std::string(MakePlan(p, Quick(15)).status().message()),
              HasSubstr("stages[0].needs[1]: value 1 can be neither kept"));
}

TEST(MakePlanTest, LiesBetweenTheBoundAndTheExhaustiveSearch) {
  int plans = 0;
  int best = 0;
  int tight = 0;
  const auto make = [](uint32_t seed) {
    return RandomProfile(seed, 2 + seed % 6);
  };
  const auto look = [&](const Profile& p, int64_t budget) {
    const auto plan = MakePlan(p, Quick(budget));
    ASSERT_EQ(plan.status(), absl::OkStatus());
    const Time least = GraphOracle(p, Bytes{budget}).LeastTime();
    EXPECT_LE(plan->lower_bound_time, least);
    if (!plan->feasible) {
      EXPECT_GT(plan->least_budget, Bytes{budget});
      return;
    }
    EXPECT_GE(plan->time, least);
    EXPECT_LE(plan->peak, Bytes{budget});
    EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
    ++plans;
    best += plan->time == least ? 1 : 0;
    tight += plan->lower_bound_time == least ? 1 : 0;
  };
  WalkProfiles({0, 250}, {98, 90, 82, 75}, make, look);
  RecordProperty("plans", plans);
  RecordProperty("best", best);
  RecordProperty("tight", tight);
  EXPECT_GT(plans, 500);
  // The search is not exact; it was in all but a few when this was written.
  EXPECT_GT(best, plans * 97 / 100);
}

TEST(MakePlanTest, TheFloorIsAPlanAndMostlyTheLeast) {
  int missed = 0;
  int found = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 6);
    const auto floor = Floor(p, Quick(0));
    ASSERT_EQ(floor.status(), absl::OkStatus());
    EXPECT_NE(GraphOracle(p, floor->bytes).LeastTime(), GraphOracle::kNever);
    const Bytes below = floor->bytes - Bytes{1};
    const bool better =
        GraphOracle(p, below).LeastTime() != GraphOracle::kNever;
    (better ? missed : found) += 1;
  }
  EXPECT_LT(missed * 5, found);
}

TEST(MakePlanTest, TheSameSeedAndEvaluationsGiveTheSamePlan) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Profile p = RandomProfile(seed, 8);
    const int64_t budget = Count(UnmanagedPeak(p)) * 7 / 10;
    const auto one = MakePlan(p, Quick(budget));
    const auto two = MakePlan(p, Quick(budget));
    ASSERT_EQ(one.status(), absl::OkStatus());
    EXPECT_EQ(one->actions, two->actions);
  }
}

TEST(MakePlanTest, MovesValuesWhereRecomputingIsForbidden) {
  int moved = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Profile p = RandomProfile(seed, 3 + seed % 6, true);
    PlanOptions options = Quick(Count(UnmanagedPeak(p)) * 4 / 5);
    options.allow_recompute = false;
    const auto plan = MakePlan(p, options);
    if (!plan.ok()) {
      EXPECT_THAT(std::string(plan.status().message()),
                  HasSubstr("can be neither kept"));
      continue;
    }
    for (const Action& action : plan->actions) {
      EXPECT_NE(action.what, Action::Do::kRecompute);
      moved += action.what == Action::Do::kOffload ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 10);
}

TEST(MakePlanTest, OffloadNeverHurtsAndOftenHelps) {
  int helped = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Profile p = RandomProfile(seed, 3 + seed % 6, true);
    PlanOptions options = Quick(Count(UnmanagedPeak(p)) * 4 / 5);
    const auto both = MakePlan(p, options);
    ASSERT_EQ(both.status(), absl::OkStatus()) << seed;
    options.allow_offload = false;
    const auto alone = MakePlan(p, options);
    ASSERT_EQ(alone.status(), absl::OkStatus()) << seed;
    if (alone->feasible) {
      EXPECT_TRUE(both->feasible) << seed;
      EXPECT_LE(both->lower_bound_time, alone->time) << seed;
    }
    helped += both->feasible && (!alone->feasible || both->time < alone->time);
  }
  EXPECT_GT(helped, 10);
}

TEST(MakePlanTest, StaysWithinTheRoomOfTheHost) {
  int less = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Profile p = RandomProfile(seed, 3 + seed % 6, true);
    const PlanOptions options = Quick(Count(UnmanagedPeak(p)) * 7 / 10);
    const auto free = MakePlan(p, options);
    ASSERT_EQ(free.status(), absl::OkStatus()) << seed;
    p.host = Bytes{static_cast<int64_t>(seed % 12)};
    const auto plan = MakePlan(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus()) << seed;
    if (free->feasible) less += ValidatePlan(p, *free) != absl::OkStatus();
    if (!plan->feasible) continue;
    EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus()) << seed;
    EXPECT_LE(free->lower_bound_time, plan->time) << seed;
  }
  EXPECT_GT(less, 10);
}

// Overheads that an independent prototype of the same model reaches on these
// networks: 2.64, 6.53 and 15.40 % at 70, 50 and 35 % of the unmanaged peak.
TEST(MakePlanTest, PlansATransformerCloseToItsLowerBound) {
  const Profile p = Gpt(12, 8, 512, 1024, 16, 50304);
  const Time base = BaseTime(p);
  const struct {
    int budget_percent;
    double most_overhead;
  } cases[] = {{70, 0.0275}, {50, 0.0670}, {35, 0.1560}};
  for (const auto& c : cases) {
    PlanOptions options;
    options.budget = Bytes{KeepPeak(p) * c.budget_percent / 100};
    options.evaluations = 10000;
    options.time_limit = absl::Seconds(60);
    const auto plan = MakePlan(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    ASSERT_TRUE(plan->feasible);
    EXPECT_LE(plan->time, base * (1 + c.most_overhead)) << c.budget_percent;
    EXPECT_LE(plan->time, plan->lower_bound_time * 1.005) << c.budget_percent;
  }
}

// The first plan of a job is searched for as long as a step or so takes.
TEST(MakePlanTest, AFewHundredEvaluationsFindAPlanNearTheStep) {
  const Profile p = ResearchGraph("gpts", 12);
  for (int share : {25, 35, 50}) {
    PlanOptions options = {.budget = Bytes{KeepPeak(p) * share / 100},
                           .evaluations = 300,
                           .allow_offload = false};
    for (bool bounds : {true, false}) {
      options.bounds = bounds;
      const auto plan = MakePlan(p, options);
      ASSERT_TRUE(plan.ok() && plan->feasible) << share;
      EXPECT_LT(plan->time, 1.7 * BaseTime(p)) << share;
      EXPECT_EQ(plan->lower_bound_time > 0, bounds);
    }
  }
}

// A share of few evaluations was none, and none meant without end.
TEST(MakePlanTest, EndsAfterAFewEvaluationsWithoutATimeLimit) {
  const Profile p = RandomNetwork(7, 12);
  PlanOptions options;
  options.budget = Bytes{KeepPeak(p) * 7 / 10};
  options.time_limit = absl::InfiniteDuration();
  for (int64_t evaluations : {1, 5, 17}) {
    options.evaluations = evaluations;
    EXPECT_EQ(MakePlan(p, options).status(), absl::OkStatus());
  }
}

TEST(MakeCurveTest, FallsFromTheFloorToTheUnmanagedPeak) {
  int points = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Profile p = RandomProfile(seed, 4 + seed % 6);
    PlanOptions options;
    options.evaluations = 300;
    const auto curve = MakeCurve(p, options);
    ASSERT_EQ(curve.status(), absl::OkStatus());
    const auto floor = Floor(p, options);
    ASSERT_EQ(floor.status(), absl::OkStatus());
    ASSERT_FALSE(curve->empty());
    EXPECT_EQ(curve->back().time, BaseTime(p));
    EXPECT_LE(curve->back().budget, UnmanagedPeak(p));
    EXPECT_EQ(curve->front().budget, floor->bytes);
    points += static_cast<int>(curve->size());
    for (size_t k = 0; k < curve->size(); ++k) {
      const CurvePoint& point = (*curve)[k];
      EXPECT_GE(point.time, GraphOracle(p, point.budget).LeastTime());
      if (k == 0) continue;
      EXPECT_GT(point.budget, (*curve)[k - 1].budget);
      EXPECT_LT(point.time, (*curve)[k - 1].time);
    }
  }
  EXPECT_GT(points, 90);
}

TEST(MakePlanTest, ClosesTheGapWithAPairOfInstants) {
  // The optimum is 10.916 % of the step; one instant proves 9.83 %.
  const Profile p = ResearchGraph("unet", 2);
  PlanOptions options;
  options.budget = Bytes{KeepPeak(p) / 2};
  options.evaluations = 20000;
  options.time_limit = absl::Seconds(60);
  const auto plan = MakePlan(p, options);
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_GE(plan->lower_bound_time, BaseTime(p) * 1.1086);
  EXPECT_LE(plan->lower_bound_time, BaseTime(p) * 1.1092);
  EXPECT_THAT(plan->bound_witness, ContainsRegex("^stage 1 .* and stage 6 "));
}

TEST(MakePlanTest, OffloadTakesMostOfATransformersOverheadAway) {
  Profile p = Gpt(12, 8, 512, 1024, 16, 50304);
  Time forward = 0;
  for (const Op& op : p.ops) forward += op.time;
  double saved = 0;
  for (const Value& v : p.values) saved += v.saved ? Count(v.bytes) : 0;
  // A lane that moves 30 % of what is saved while the forward pass runs.
  p.d2h = p.h2d = 0.3 * saved / forward;
  PlanOptions options;
  options.budget = Bytes{KeepPeak(p) * 35 / 100};
  options.evaluations = 4000;
  options.time_limit = absl::Seconds(60);
  const auto plan = MakePlan(p, options);
  ASSERT_EQ(plan.status(), absl::OkStatus());
  ASSERT_TRUE(plan->feasible);
  EXPECT_LE(plan->time, BaseTime(p) * 1.06);
  EXPECT_LE(plan->lower_bound_time, plan->time);
}

}  // namespace
}  // namespace ebbtide
