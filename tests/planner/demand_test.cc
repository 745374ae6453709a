#include "planner/demand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "planner/evaluator.h"
#include "planner/eviction_order.h"
#include "planner/plan.h"
#include "planner/validate.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

struct Offer {
  double bytes, ahead, cost;
  double worth() const { return std::sqrt(ahead) / cost; }
};

// The rule of the header, read out.
int Chosen(const std::vector<Offer>& offers, double missing) {
  int dense = -1;
  for (size_t i = 0; i < offers.size(); ++i) {
    const double density = offers[i].bytes * offers[i].worth();
    if (dense < 0 || density > offers[dense].bytes * offers[dense].worth()) {
      dense = i;
    }
  }
  if (dense < 0 || offers[dense].bytes < missing) return dense;
  int best = dense;
  for (int i = static_cast<int>(offers.size()) - 1; i >= 0; --i) {
    if (offers[i].bytes >= missing &&
        offers[i].worth() >= offers[best].worth()) {
      best = i;
    }
  }
  return best;
}

TEST(EvictionChoiceTest, IsTheRule) {
  std::mt19937 rng(1);
  int enough = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<Offer> offers(rng() % 6);
    for (Offer& o : offers) {
      o = {1.0 + rng() % 8, 1.0 * (rng() % 5), 1.0 + rng() % 5};
    }
    const double missing = 1 + rng() % 8;
    EvictionChoice choice(missing);
    for (size_t i = 0; i < offers.size(); ++i) {
      const Offer& o = offers[i];
      const int before = choice.best();
      const bool may_win = choice.MayWin(o.bytes, o.ahead, o.cost);
      choice.Consider(i, o.bytes, o.ahead, o.cost);
      EXPECT_TRUE(may_win || choice.best() == before) << round;
    }
    ASSERT_EQ(choice.best(), Chosen(offers, missing)) << round;
    enough += choice.best() >= 0 && offers[choice.best()].bytes >= missing;
  }
  EXPECT_GT(enough, 5000);
}

PlanOptions Demand(Bytes budget, const char* solver) {
  return {.budget = budget, .solver = solver};
}

TEST(DemandTest, PlansKeepTheirBudgetAndAreNoFasterThanProven) {
  int feasible = 0;
  int evicting = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 14, false);
    if (!CompileGraph(p, true).ok()) continue;
    const int64_t most = Count(UnmanagedPeak(p));
    for (int share : {50, 75, 100}) {
      const Bytes budget{std::max<int64_t>(1, most * share / 100)};
      const auto best = MakePlan(
          p, {.budget = budget, .evaluations = 3000, .allow_offload = false});
      ASSERT_EQ(best.status(), absl::OkStatus());
      for (const char* solver : {"demand", "dtr"}) {
        const auto plan = MakePlan(p, Demand(budget, solver));
        ASSERT_EQ(plan.status(), absl::OkStatus()) << seed << solver;
        if (!plan->feasible) {
          EXPECT_GT(plan->least_budget, budget);
          EXPECT_LT(share, 100);
          continue;
        }
        ++feasible;
        evicting += Contains(*plan, Do::kRecompute);
        EXPECT_LE(plan->peak, budget);
        ASSERT_TRUE(best->feasible) << seed << solver;
        EXPECT_GE(plan->time * (1 + 1e-12), best->lower_bound_time);
      }
    }
  }
  EXPECT_GT(feasible, 1000);
  EXPECT_GT(evicting, 200);
}

TEST(DemandTest, DearPlanOfShortSearchIsNoSlowerThanDemand) {
  int dear = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Profile p = RandomProfile(seed, 10 + seed % 50, false);
    if (!CompileGraph(p, true).ok()) continue;
    for (int share : {40, 50, 60}) {
      const Bytes budget{
          std::max<int64_t>(1, Count(UnmanagedPeak(p)) * share / 100)};
      const auto demand = MakePlan(p, Demand(budget, "demand"));
      ASSERT_EQ(demand.status(), absl::OkStatus());
      if (!demand->feasible) continue;
      const auto plan = MakePlan(
          p, {.budget = budget, .evaluations = 1, .allow_offload = false});
      ASSERT_EQ(plan.status(), absl::OkStatus());
      ASSERT_TRUE(plan->feasible) << seed;
      dear += demand->time > 1.25 * BaseTime(p);
      EXPECT_LE(plan->time,
                std::max(demand->time, 1.25 * BaseTime(p)) * (1 + 1e-12))
          << seed;
    }
  }
  EXPECT_GT(dear, 50);
}

TEST(DemandTest, WhatFitsIsLeftAlone) {
  const Profile p = RandomProfile(5, 12, false);
  for (const char* solver : {"demand", "dtr"}) {
    const auto plan = MakePlan(p, Demand(UnmanagedPeak(p), solver));
    ASSERT_TRUE(plan.ok() && plan->feasible);
    EXPECT_DOUBLE_EQ(plan->time, BaseTime(p));
  }
}

TEST(DemandTest, TheDraftTakesNoMoreTimeThanTheActions) {
  int recomputing = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 30, false);
    const auto graph = CompileGraph(p, true);
    if (!graph.ok()) continue;
    const int64_t budget = Count(UnmanagedPeak(p)) * 2 / 3;
    for (DemandOrder order : {DemandOrder::kNextUse, DemandOrder::kDtr}) {
      Time recompute = 0;
      for (const Action& a : DemandActions(*graph, budget, order)) {
        if (a.what == Do::kRecompute) recompute += graph->time[a.index];
      }
      Evaluation result;
      Evaluator(*graph).Evaluate(DemandDraft(*graph, budget, order), &result);
      ASSERT_FALSE(result.broken) << seed;
      EXPECT_LE(result.overhead, recompute * (1 + 1e-12)) << seed;
      recomputing += result.overhead > 0;
    }
  }
  EXPECT_GT(recomputing, 500);
}

// Op i reads value i - 1 and makes value i; stage t needs value n - 1 - t.
Profile Chain(int n) {
  Profile p;
  for (int i = 0; i < n; ++i) {
    p.values.push_back({.name = "v",
                        .bytes = Bytes{10},
                        .op = i,
                        .saved = true,
                        .retainable = true,
                        .released = std::min(i + 1, n - 1)});
    p.ops.push_back({.name = "op",
                     .inputs = i == 0 ? std::vector<int>{} : std::vector{i - 1},
                     .outputs = {i},
                     .time = 1,
                     .replayable = true});
  }
  for (int t = 0; t < n; ++t) {
    p.stages.push_back({.name = "stage", .needs = {n - 1 - t}, .time = 1});
  }
  return p;
}

// The number of recomputations of the op that was recomputed most often.
int MostReruns(const Plan& plan) {
  std::map<int, int> reruns;
  int most = 0;
  for (const Action& a : plan.actions) {
    if (a.what == Do::kRecompute) most = std::max(most, ++reruns[a.index]);
  }
  return most;
}

// With 2 sqrt(n) values a chain can be gone back through with one recomputation
// of each op; DTR's authors prove a constant for theirs.
TEST(DemandTest, AChainInRootSpaceDoesNotThrash) {
  for (int n : {16, 64, 256, 1024}) {
    const int room = 2 * static_cast<int>(std::sqrt(n)) + 2;
    const auto plan = MakePlan(Chain(n), Demand(Bytes{10 * room}, "demand"));
    ASSERT_TRUE(plan.ok() && plan->feasible) << n;
    EXPECT_LE(MostReruns(*plan), 4) << n;
    EXPECT_LE(plan->time, 2.0 * n + 2.0 * n) << n;
  }
}

}  // namespace
}  // namespace ebbtide
