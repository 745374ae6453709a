#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <cstdio>
#include <thread>

#include "planner/ilp/checkmate.h"
#include "planner/simulate.h"
#include "planner/validate.h"
#include "tests/planner/graph_oracle.h"
#include "tests/planner/lane_oracle.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_walk.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

using ::testing::HasSubstr;
using Do = Action::Do;

// The program's own answer for a profile; plans are checked on the way.
struct Answer {
  bool found = false;
  Time time = 0;
  Time bound = 0;  // on the time
};

Answer Ask(const Profile& p, int64_t budget, int passes = 1) {
  const auto graph = CompileGraph(p, true);
  EXPECT_EQ(graph.status(), absl::OkStatus());
  IlpOptions options;
  options.budget = budget;
  options.passes = passes;
  const auto result = SolveIlp(*graph, options);
  EXPECT_EQ(result.status(), absl::OkStatus());
  EXPECT_TRUE(result->proven);
  if (!result->found) return {};
  const auto verdict = Validate(p, result->actions, Bytes{budget});
  EXPECT_EQ(verdict.status(), absl::OkStatus());
  const auto simulation = Simulate(p, result->actions, Bytes{budget});
  EXPECT_EQ(simulation.status(), absl::OkStatus());
  EXPECT_EQ(verdict->time, simulation->time);
  EXPECT_EQ(verdict->peak, simulation->peak);
  return {true, verdict->time, BaseTime(p) + result->bound};
}

// Times of copies are no whole numbers.
constexpr double kRounding = 1e-6;

struct MoveTally {
  int asked = 0;
  int moves = 0;     // an offload makes the best plan faster
  int equal = 0;     // the bound is the optimum
  int found = 0;     // and the program's plan has it
  double worst = 0;  // bound, share of the optimum
};

void LookAtMoves(const Profile& p, int64_t budget, MoveTally* tally) {
  const Time least = LaneOracle(p, Bytes{budget}, true).LeastTime();
  const auto graph = CompileGraph(p, true);
  ASSERT_EQ(graph.status(), absl::OkStatus());
  const auto result = SolveIlp(*graph, {.budget = budget, .offload = true});
  ASSERT_EQ(result.status(), absl::OkStatus());
  if (least == LaneOracle::kNever) {
    EXPECT_FALSE(result->found);
    return;
  }
  ++tally->asked;
  tally->moves += least < GraphOracle(p, Bytes{budget}).LeastTime();
  const Time bound = BaseTime(p) + result->bound;
  EXPECT_LE(bound, least);
  const bool equal = bound >= least * (1 - kRounding);
  tally->equal += equal;
  tally->worst = std::max(tally->worst, 1 - bound / least);
  if (!result->found) return;
  const auto verdict = Validate(p, result->actions, Bytes{budget});
  ASSERT_EQ(verdict.status(), absl::OkStatus());
  EXPECT_GE(verdict->time, least * (1 - kRounding));
  if (result->proven) {
    EXPECT_LE(verdict->time, least * (1 + kRounding));
  }
  tally->found += verdict->time <= least * (1 + kRounding);
}

TEST(IlpTest, IsNeverAboveTheExhaustiveSearchWithCopies) {
  MoveTally tally;
  for (int seed = 0; seed < Often(60, 600); ++seed) {
    Profile p;
    if (seed % 2 == 0) {
      p = RandomProfile(seed, 2 + seed % 4, true);
    } else {
      p = RandomNetwork(seed, 4 + seed % 2);
      p.d2h = 0.4 * (1 + seed % 3);
      p.h2d = 0.3 * (1 + seed % 5);
    }
    for (int percent : {90, 80, 70, 60}) {
      SCOPED_TRACE(absl::StrCat(seed, " at ", percent));
      LookAtMoves(p, Count(UnmanagedPeak(p)) * percent / 100, &tally);
    }
  }
  EXPECT_GT(tally.moves, Often(10, 90));
  EXPECT_GT(tally.equal, tally.asked * 0.98);
  EXPECT_GT(tally.found, tally.asked * 0.95);
  std::printf(
      "copies help in %d of %d: bound equal in %d, plan in %d, worst "
      "%.3f\n",
      tally.moves, tally.asked, tally.equal, tally.found, tally.worst);
}

TEST(IlpTest, WithoutLanesNothingChangesByOffload) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Profile p = RandomNetwork(seed, 8 + seed % 6);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    IlpOptions options{.budget = KeepPeak(p) * 8 / 10};
    const auto without = SolveIlp(*graph, options);
    ASSERT_EQ(without.status(), absl::OkStatus());
    options.offload = true;
    const auto with = SolveIlp(*graph, options);
    ASSERT_EQ(with.status(), absl::OkStatus());
    EXPECT_EQ(with->bound, without->bound);
    EXPECT_TRUE(with->actions == without->actions);
  }
}

PlanOptions Within(int64_t budget) {
  PlanOptions options;
  options.budget = Bytes{budget};
  options.evaluations = 1500;
  options.time_limit = absl::Seconds(60);
  return options;
}

TEST(IlpTest, IsAsFastAsTheExhaustiveSearch) {
  int found = 0;
  int none = 0;
  const auto make = [](uint32_t seed) {
    return RandomProfile(seed, 2 + seed % 7);
  };
  const auto look = [&](const Profile& p, int64_t budget) {
    const Time least = GraphOracle(p, Bytes{budget}).LeastTime();
    const Answer answer = Ask(p, budget);
    ASSERT_EQ(answer.found, least != GraphOracle::kNever);
    (answer.found ? found : none) += 1;
    if (!answer.found) return;
    EXPECT_EQ(answer.time, least);
    EXPECT_LE(answer.bound, least);
  };
  WalkProfiles({0, 60}, {98, 92, 86, 80, 74}, make, look);
  std::printf("exhaustive search: equal in %d, no plan in %d\n", found, none);
  EXPECT_GT(found, 150);
  EXPECT_GT(none, 50);
}

// x (10 bytes) and z (1 byte, 10 bytes of scratch) are both needed by the last
// stage, and neither can be there during the one before: only z, then x fits.
Profile NeedsTheOtherOrder() {
  Profile p;
  for (int i = 0; i < 2; ++i) {
    Value v{.name = i == 0 ? "x" : "z", .bytes = Bytes{i == 0 ? 10 : 1}};
    v.op = v.released = i;
    v.saved = v.retainable = true;
    p.values.push_back(v);
    Op op{.name = "make_" + v.name, .outputs = {i}, .time = 5};
    op.scratch = Bytes{i == 0 ? 0 : 10};
    op.replayable = true;
    p.ops.push_back(op);
  }
  p.stages = {{.name = "full", .time = 1, .during = Bytes{11}},
              {.name = "last", .needs = {0, 1}, .time = 1}};
  return p;
}

// HiGHS hands out solutions above the cutoff as optimal.
TEST(IlpTest, FindsNothingWhereNothingIsBelowTheCutoff) {
  int asked = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Profile p = RandomNetwork(seed, 12 + seed % 8);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    IlpOptions options{.budget = KeepPeak(p) * 7 / 10};
    const auto best = SolveIlp(*graph, options);
    ASSERT_EQ(best.status(), absl::OkStatus());
    if (!best->found || best->bound < 1) continue;
    ++asked;
    options.cutoff = static_cast<double>(std::llround(best->bound)) - 0.5;
    const auto none = SolveIlp(*graph, options);
    ASSERT_EQ(none.status(), absl::OkStatus());
    EXPECT_FALSE(none->found);
    EXPECT_TRUE(none->proven);
    EXPECT_EQ(none->bound, options.cutoff);
  }
  EXPECT_GT(asked, 20);
}

TEST(IlpTest, MorePassesAdmitOtherOrders) {
  const Profile p = NeedsTheOtherOrder();
  EXPECT_FALSE(Ask(p, 11).found);
  const Answer two = Ask(p, 11, 2);
  ASSERT_TRUE(two.found);
  EXPECT_EQ(two.time, BaseTime(p) + 10);
  EXPECT_EQ(two.time, GraphOracle(p, Bytes{11}).LeastTime());
}

TEST(IlpTest, MorePassesChangeNothingWhereOneIsEnough) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 7);
    const int64_t budget = Count(UnmanagedPeak(p)) * 9 / 10;
    EXPECT_EQ(Ask(p, budget).time, Ask(p, budget, 2).time) << seed;
  }
}

TEST(IlpTest, TwoThreadsDoNotDisturbEachOther) {
  const Profile p = RandomProfile(1015, 20);
  const int64_t budget = Count(UnmanagedPeak(p)) * 92 / 100;
  const Answer alone = Ask(p, budget);
  ASSERT_TRUE(alone.found);
  Answer answers[2];
  std::thread first([&] { answers[0] = Ask(p, budget); });
  std::thread second([&] { answers[1] = Ask(p, budget); });
  first.join();
  second.join();
  for (const Answer& answer : answers) EXPECT_EQ(answer.time, alone.time);
}

TEST(CheckmateTest, RebuildsWhatDoesNotFit) {
  const auto plan = SolveCheckmate(ThreeOps(), Within(14));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_EQ(plan->solver, "checkmate");
  ASSERT_TRUE(plan->feasible);
  EXPECT_EQ(ValidatePlan(ThreeOps(), *plan), absl::OkStatus());
  EXPECT_EQ(plan->time, plan->lower_bound_time);
  EXPECT_EQ(plan->time, GraphOracle(ThreeOps(), Bytes{14}).LeastTime());
}

TEST(CheckmateTest, SaysWhatWouldDoWhereNothingFits) {
  const auto plan = SolveCheckmate(ThreeOps(), Within(12));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_FALSE(plan->feasible);
  EXPECT_EQ(plan->least_budget, Bytes{13});
  EXPECT_EQ(plan->floor_witness, "op 1 make_b");
}

TEST(CheckmateTest, DoesNothingThatIsForbidden) {
  int moves = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Profile p = RandomProfile(seed, 6, true);
    PlanOptions options = Within(Count(UnmanagedPeak(p)));
    options.budget -= Bytes{1};
    const auto moved = SolveCheckmate(p, options);
    ASSERT_EQ(moved.status(), absl::OkStatus());
    moves += Contains(*moved, Do::kOffload);
    options.allow_offload = false;
    const auto plan = SolveCheckmate(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_FALSE(Contains(*plan, Do::kOffload));
    if (plan->feasible) {
      EXPECT_LE(moved->lower_bound_time, plan->lower_bound_time);
    }
    options.allow_recompute = false;
    const auto none = SolveCheckmate(p, options);
    if (!none.ok()) continue;  // a need can only be recomputed
    EXPECT_FALSE(Contains(*none, Do::kRecompute));
  }
  EXPECT_GT(moves, 0);
}

Profile WithLanes(Profile p, double d2h, double h2d) {
  p.d2h = d2h;
  p.h2d = h2d;
  return p;
}

// For larger graphs there is no exhaustive search with copies: plans of the
// annealed search are the limit of the program's bound.
TEST(CheckmateTest, MovesAsWellAsTheSearchAndItsBoundHolds) {
  int solved = 0;
  int moves = 0;
  int better = 0;
  int proven = 0;
  const int networks = Often(16, 120);
  for (int seed = 0; seed < networks; ++seed) {
    SCOPED_TRACE(seed);
    const Profile p = WithLanes(RandomNetwork(seed, 6 + seed % 6),
                                0.3 * (1 + seed % 4), 0.3 * (1 + seed % 3));
    const PlanOptions options = Within(KeepPeak(p) * (6 + seed % 3) / 10);
    const auto ours = MakePlan(p, options);
    ASSERT_EQ(ours.status(), absl::OkStatus());
    if (!ours->feasible) continue;
    ++solved;
    moves += Contains(*ours, Do::kOffload);
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    const auto alone =
        SolveIlp(*graph, {.budget = Count(options.budget), .offload = true});
    ASSERT_EQ(alone.status(), absl::OkStatus());
    EXPECT_LE(BaseTime(p) + alone->bound, ours->time);
    const auto plan = SolveCheckmate(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
    EXPECT_LE(plan->time, ours->time);
    EXPECT_GE(plan->lower_bound_time, ours->lower_bound_time);
    EXPECT_LE(plan->lower_bound_time, plan->time);
    better += plan->time < ours->time;
    proven += plan->time == plan->lower_bound_time;
  }
  std::printf(
      "%d networks with a plan: moves in %d, faster in %d, proven in %d\n",
      solved, moves, better, proven);
  EXPECT_GT(moves, solved / 3);
  EXPECT_GT(proven, solved / 3);
}

TEST(CheckmateTest, KeepsToTheRoomOfTheHost) {
  int moves = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Profile p = WithLanes(RandomNetwork(seed, 6), 1, 1);
    p.host = Bytes{20};
    const PlanOptions options = Within(KeepPeak(p) * 7 / 10);
    const auto plan = SolveCheckmate(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    if (!plan->feasible) continue;
    EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
    moves += Contains(*plan, Do::kOffload);
    p.host = Bytes{-1};
    const auto more = SolveCheckmate(p, options);
    ASSERT_EQ(more.status(), absl::OkStatus());
    EXPECT_LE(more->lower_bound_time, plan->lower_bound_time);
  }
  EXPECT_GT(moves, 0);
}

// 61 forward ops at 40 % take minutes to prove.
TEST(CheckmateTest, EndsInTimeWithAPlanAndABound) {
  const Profile p = Gpt(2, 8, 512, 1024, 16, 8000);
  PlanOptions options = Within(KeepPeak(p) * 2 / 5);
  options.time_limit = absl::Milliseconds(1500);
  const auto plan = SolveCheckmate(p, options);
  ASSERT_EQ(plan.status(), absl::OkStatus());
  ASSERT_TRUE(plan->feasible);
  EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
  EXPECT_GT(plan->lower_bound_time, BaseTime(p));
  EXPECT_LT(plan->lower_bound_time, plan->time);
  EXPECT_LT(plan->plan_seconds, 6);
}

// A case that the graph planner leaves open, 33 forward ops.
TEST(CheckmateTest, ProvesThePlanOfATransformerLayer) {
  const Profile p = Gpt(1, 8, 512, 1024, 16, 8000);
  PlanOptions options = Within(KeepPeak(p) * 3 / 5);
  const auto plan = SolveCheckmate(p, options);
  ASSERT_EQ(plan.status(), absl::OkStatus());
  options.allow_offload = false;
  const auto ours = MakePlan(p, options);
  ASSERT_EQ(ours.status(), absl::OkStatus());
  EXPECT_EQ(plan->time, plan->lower_bound_time);
  EXPECT_LE(plan->time, ours->time);
  EXPECT_LT(ours->lower_bound_time, plan->time);
}

TEST(CheckmateTest, RefusesWhatIsTooLarge) {
  const Profile p = Gpt(16, 8, 512, 1024, 16, 50304);
  const PlanOptions options = Within(Count(UnmanagedPeak(p)) / 2);
  EXPECT_THAT(std::string(SolveCheckmate(p, options).status().message()),
              HasSubstr("variables or more, expected at most"));
}

}  // namespace
}  // namespace ebbtide
