#include "planner/hierarchical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_set.h"
#include "planner/evaluator.h"
#include "planner/hierarchy.h"
#include "planner/validate.h"
#include "tests/planner/graph_oracle.h"
#include "tests/planner/profiles.h"
#include "tests/planner/research_graphs.h"

namespace ebbtide {
namespace {

PlanOptions Within(int64_t budget) {
  PlanOptions options;
  options.budget = Bytes{budget};
  options.solver = "hierarchical";
  options.time_limit = absl::Seconds(60);
  options.evaluations = 2000;
  return options;
}

int64_t Percent(const Profile& p, int percent) {
  return std::max<int64_t>(1, Count(UnmanagedPeak(p)) * percent / 100);
}

void ExpectCovers(const Graph& graph, const std::vector<Part>& parts) {
  std::vector<int> ops(graph.ops, 0);
  std::vector<int> stages(graph.stages, 0);
  for (const Part& part : parts) {
    if (!part.children.empty()) continue;
    for (int i = part.begin; i < part.end; ++i) ++ops[i];
    for (int t = part.first_stage; t < part.end_stage; ++t) ++stages[t];
  }
  EXPECT_EQ(std::count(ops.begin(), ops.end(), 1), graph.ops);
  EXPECT_EQ(std::count(stages.begin(), stages.end(), 1), graph.stages);
}

void ExpectNested(const std::vector<Part>& parts, size_t p) {
  const Part& part = parts[p];
  if (part.children.empty()) return;
  int op = part.begin;
  int stage = part.end_stage;
  for (int child : part.children) {
    ASSERT_LT(child, static_cast<int>(p));
    EXPECT_EQ(parts[child].begin, op);
    EXPECT_EQ(parts[child].end_stage, stage);
    op = parts[child].end;
    stage = parts[child].first_stage;
  }
  EXPECT_EQ(op, part.end);
  EXPECT_EQ(stage, part.first_stage);
}

void ExpectCaps(const std::vector<Part>& parts, size_t p) {
  const Part& part = parts[p];
  const size_t most = p + 1 == parts.size() ? kMostOnTop : kMostInGroup;
  EXPECT_LE(part.children.size(), most);
  if (part.children.empty()) {
    EXPECT_LE(part.end - part.begin, kWhole);
  } else {
    EXPECT_GT(part.end - part.begin, kWhole);
    EXPECT_GE(part.children.size(), 2);
  }
}

TEST(HierarchicalTest, PartsCoverTheGraphOnceAndRespectTheCaps) {
  std::vector<Profile> profiles = {
      ResearchGraph("gpts", 12),  ResearchGraph("gptf", 48),
      ResearchGraph("encdec", 6), ResearchGraph("unet", 5),
      RandomNetwork(1, 400),      RandomNetwork(2, 3000)};
  for (size_t n = 0; n < 2 * profiles.size(); ++n) {
    const Profile& p = profiles[n / 2];
    const auto graph = CompileGraph(p, true);
    ASSERT_EQ(graph.status(), absl::OkStatus());
    const std::vector<Part> parts =
        PartitionGraph(*graph, Uses(*graph, n % 2 == 0 ? 0 : 0.5));
    ExpectCovers(*graph, parts);
    for (size_t k = 0; k < parts.size(); ++k) {
      ExpectNested(parts, k);
      ExpectCaps(parts, k);
    }
  }
}

TEST(HierarchicalTest, StagesFollowTheOpsWhoseValuesTheyNeed) {
  const Profile p = ResearchGraph("gpts", 12);
  const auto graph = CompileGraph(p, true);
  for (const Part& part : PartitionGraph(*graph, Uses(*graph, 0))) {
    // One stage for each op, backward.
    EXPECT_NEAR(part.first_stage, graph->ops - part.end, 1);
    EXPECT_NEAR(part.end_stage, graph->ops - part.begin, 1);
  }
}

// Two blocks of three ops each behind a first op, with one stage for each op.
Profile TwoBlocks() {
  NetworkBuilder n;
  int x = n.Add("first", 5, 7, {}, {}, true);
  for (int k = 0; k < 2; ++k) {
    const int a = n.Add("a", 3, 20, {x}, {x});
    const int b = n.Add("b", 4, 30, {a}, {a});
    x = n.Add("c", 5, 7, {a, b}, {b}, true);
  }
  n.Add("last", 1, 1, {x}, {x});
  return n.Finish();
}

std::vector<std::string> SignaturesOfBlocks(const Profile& p) {
  const auto graph = CompileGraph(p, true);
  EXPECT_EQ(graph.status(), absl::OkStatus());
  const Uses uses(*graph, 0);
  std::vector<std::string> signatures;
  for (int k = 0; k < 2; ++k) {
    const int begin = 1 + 3 * k;
    const Part part{begin, begin + 3, 8 - begin - 3, 8 - begin, {}};
    signatures.push_back(Signature(MakePartProfile(*graph, uses, part)));
  }
  return signatures;
}

bool BlocksAreEqual(const Profile& p) {
  const std::vector<std::string> signatures = SignaturesOfBlocks(p);
  return signatures[0] == signatures[1];
}

TEST(HierarchicalTest, EqualBlocksHaveEqualSignatures) {
  EXPECT_TRUE(BlocksAreEqual(TwoBlocks()));
}

TEST(HierarchicalTest, SignaturesDoNotDependOnNames) {
  Profile p = TwoBlocks();
  p.ops[2].name = "other";
  p.values[2].name = "other";
  p.stages[2].name = "other";
  EXPECT_EQ(SignaturesOfBlocks(p), SignaturesOfBlocks(TwoBlocks()));
}

TEST(HierarchicalTest, SignaturesDoNotDependOnWhatIsThereAllAlong) {
  Profile p = TwoBlocks();
  for (int i = 1; i < 4; ++i) p.ops[i].other += Bytes{100};
  for (int t = 1; t < 4; ++t) {
    p.stages[t].before += Bytes{50};
    p.stages[t].during += Bytes{50};
  }
  EXPECT_EQ(SignaturesOfBlocks(p), SignaturesOfBlocks(TwoBlocks()));
}

TEST(HierarchicalTest, BlocksThatDifferInAnythingHaveOtherSignatures) {
  const auto changed = [](auto change) {
    Profile p = TwoBlocks();
    change(p);
    return BlocksAreEqual(p);
  };
  EXPECT_FALSE(changed([](Profile& p) { p.values[2].bytes += Bytes{1}; }));
  EXPECT_FALSE(changed([](Profile& p) { p.ops[2].time += 1; }));
  EXPECT_FALSE(changed([](Profile& p) { p.ops[2].scratch += Bytes{1}; }));
  EXPECT_FALSE(changed([](Profile& p) { p.ops[2].other += Bytes{1}; }));
  EXPECT_FALSE(changed([](Profile& p) { p.ops[2].replayable = false; }));
  EXPECT_FALSE(changed([](Profile& p) { p.values[2].retainable = false; }));
  EXPECT_FALSE(changed([](Profile& p) { p.ops[3].inputs = {2}; }));
  EXPECT_FALSE(changed([](Profile& p) { p.stages[5].during += Bytes{1}; }));
  EXPECT_FALSE(changed([](Profile& p) { p.stages[5].needs.clear(); }));
  // A value of the first block that the second block reads too.
  EXPECT_FALSE(changed([](Profile& p) {
    p.ops[5].inputs.push_back(2);
    p.values[2].released = 5;
  }));
}

TEST(HierarchicalTest, EqualLayersShareTheirMenus) {
  const Profile p = ResearchGraph("gpts", 48);
  const auto graph = CompileGraph(p, true);
  const Hierarchy hierarchy(*graph, 0, 1, 200, absl::InfiniteFuture());
  EXPECT_GT(hierarchy.parts().size(), 40);
  EXPECT_LT(hierarchy.menus(), 12);
}

PartOption Option(int64_t save, int64_t backward, Time time) {
  return {.save = save, .backward = backward, .time = time, .draft = 0};
}

TEST(HierarchicalTest, TheMergeIsAsGoodAsTryingAllChoices) {
  std::mt19937 rng(7);
  const auto pick = [&](int n) { return static_cast<int>(rng() % n); };
  int none = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<PartMenu> menus(4);
    for (PartMenu& menu : menus) {
      for (int k = 0; k < 4; ++k) {
        const int save = pick(20);
        menu.options.push_back(Option(save, save + pick(20), pick(30)));
      }
    }
    std::vector<RowPart> row;
    for (PartMenu& menu : menus) row.push_back({&menu, 0, pick(5)});
    const int64_t limit = 20 + pick(50);
    Time least = GraphOracle::kNever;
    for (int choice = 0; choice < 256; ++choice) {
      int64_t saved = 0;
      int64_t peak = 0;
      Time time = 0;
      for (int k = 0; k < 4; ++k) {
        const PartOption& option = menus[k].options[choice >> 2 * k & 3];
        peak = std::max(peak, saved + row[k].base_before + option.backward);
        saved += option.save;
        time += option.time;
      }
      if (peak <= limit) least = std::min(least, time);
    }
    const auto merged = MergeRow(row, {1000, limit, -1}, 1000);
    ASSERT_EQ(merged.empty(), least == GraphOracle::kNever);
    none += merged.empty() ? 1 : 0;
    if (merged.empty()) continue;
    EXPECT_EQ(merged.back().time, least);
  }
  EXPECT_GT(none, 10);
  EXPECT_LT(none, 190);
}

TEST(HierarchicalTest, OptionsSayWhatTheirDraftsDo) {
  const Profile p = ResearchGraph("gpts", 2);
  const auto graph = CompileGraph(p, true);
  const std::vector<Part> parts = PartitionGraph(*graph, Uses(*graph, 0));
  const Uses uses(*graph, 0);
  const Part& part = parts[parts.back().children[0]];
  PartProfile profile = MakePartProfile(*graph, uses, part);
  const PartMenu menu = SolvePart(
      &profile, {.saves = 2, .peaks = 2, .evaluations = 50, .changes = 500}, 1);
  ASSERT_GT(menu.options.size(), 20);
  const auto alone = CompileGraph(profile.profile, true);
  Evaluator evaluator(*alone);
  Evaluation result;
  for (const PartOption& option : menu.options) {
    evaluator.Evaluate(menu.drafts[option.draft], &result);
    EXPECT_EQ(result.overhead, option.time);
    EXPECT_EQ(result.stage_peak[0], option.save);
    EXPECT_FALSE(result.broken);
    for (const PartOption& other : menu.options) {
      if (&other == &option) continue;
      EXPECT_FALSE(other.save <= option.save && other.time <= option.time &&
                   other.backward <= option.backward);
    }
  }
}

TEST(HierarchicalTest, IsNeverBelowTheExhaustiveSearch) {
  int plans = 0;
  int best = 0;
  int missed = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const Profile p = RandomProfile(seed, 2 + seed % 6);
    for (int percent : {98, 88, 78}) {
      const int64_t budget = Percent(p, percent);
      const auto plan = MakePlan(p, Within(budget));
      ASSERT_EQ(plan.status(), absl::OkStatus()) << seed;
      const Time least = GraphOracle(p, Bytes{budget}).LeastTime();
      EXPECT_LE(plan->lower_bound_time, least) << seed << " " << budget;
      if (!plan->feasible) {
        EXPECT_GT(plan->least_budget, Bytes{budget}) << seed;
        missed += least < GraphOracle::kNever ? 1 : 0;
        continue;
      }
      EXPECT_GE(plan->time, least) << seed << " " << budget;
      EXPECT_LE(plan->peak, Bytes{budget});
      EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
      ++plans;
      best += plan->time == least ? 1 : 0;
    }
  }
  EXPECT_GT(plans, 200);
  EXPECT_LT(missed, 5);
  // One part each: nearly always the best.
  EXPECT_GT(best, plans * 95 / 100);
}

TEST(HierarchicalTest, PlansOfManyPartsAreValidWhateverTheProfileHas) {
  int plans = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const Profile p = RandomProfile(seed, 90 + 20 * seed, seed % 2 == 1);
    for (int percent : {90, 75}) {
      const auto plan = MakePlan(p, Within(Percent(p, percent)));
      ASSERT_EQ(plan.status(), absl::OkStatus()) << seed;
      EXPECT_LE(plan->lower_bound_time, BaseTime(p) * 2);
      if (!plan->feasible) continue;
      EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
      EXPECT_GE(plan->time, plan->lower_bound_time);
      ++plans;
    }
  }
  EXPECT_GT(plans, 12);
}

TEST(HierarchicalTest, FindsPlansForNetworksWithinHalfTheBytes) {
  struct Network {
    const char* name;
    int layers;
    double overhead;  // per cent that the direct search reaches, and some more
  };
  for (const Network& network :
       {Network{"gpts", 12, 6.53 + 0.2}, Network{"gptf", 32, 6.06 + 0.2},
        Network{"unet", 3, 8.94 + 1.5}}) {
    const Profile p = ResearchGraph(network.name, network.layers);
    PlanOptions options = Within(Percent(p, 50));
    options.evaluations = 0;
    const auto plan = MakePlan(p, options);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    ASSERT_TRUE(plan->feasible) << network.name;
    EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
    EXPECT_LE(plan->time, BaseTime(p) * (1 + network.overhead / 100))
        << network.name;
  }
}

TEST(HierarchicalTest, TheSameSeedGivesTheSamePlan) {
  const Profile p = ResearchGraph("encdec", 2);
  const PlanOptions options = Within(Percent(p, 50));
  const auto one = MakePlan(p, options);
  const auto two = MakePlan(p, options);
  ASSERT_EQ(one.status(), absl::OkStatus());
  EXPECT_TRUE(one->feasible);
  EXPECT_EQ(one->actions, two->actions);
}

TEST(HierarchicalTest, SaysWhatWouldDoWhereNothingFits) {
  const Profile p = ResearchGraph("gpts", 4);
  const auto plan = MakePlan(p, Within(Percent(p, 1)));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_EQ(plan->solver, "hierarchical");
  EXPECT_FALSE(plan->feasible);
  const auto within_least = MakePlan(p, Within(Count(plan->least_budget)));
  EXPECT_LE(Percent(p, 1), Count(plan->least_budget));
  EXPECT_TRUE(within_least->feasible);
}

TEST(HierarchicalTest, KeepsAllWhereRebuildingIsForbidden) {
  const Profile p = ResearchGraph("unet", 2);
  PlanOptions options = Within(Percent(p, 100));
  options.allow_recompute = false;
  EXPECT_EQ(MakePlan(p, options)->time, BaseTime(p));
  options.budget = Bytes{Percent(p, 60)};
  EXPECT_FALSE(MakePlan(p, options)->feasible);
}

TEST(HierarchicalTest, PlansGraphsOfNoOpAndOfOne) {
  const Profile none;
  const auto empty = MakePlan(none, Within(1));
  ASSERT_EQ(empty.status(), absl::OkStatus());
  EXPECT_TRUE(empty->feasible);
  EXPECT_TRUE(empty->actions.empty());
  const Profile one = RandomNetwork(1, 1);
  const auto plan = MakePlan(one, Within(Percent(one, 100)));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  EXPECT_TRUE(plan->feasible);
}

TEST(HierarchicalTest, PlansALongChain) {
  NetworkBuilder n;
  int x = n.Add("first", 10, 8, {}, {}, true);
  for (int k = 0; k < 2000; ++k) x = n.Add("next", 10, 8, {x}, {x}, true);
  const Profile p = n.Finish();
  const auto plan = MakePlan(p, Within(Percent(p, 10)));
  ASSERT_EQ(plan.status(), absl::OkStatus());
  ASSERT_TRUE(plan->feasible);
  EXPECT_EQ(ValidatePlan(p, *plan), absl::OkStatus());
  // Once through all that is not kept, as with checkpoints at a square root.
  EXPECT_LT(plan->time, BaseTime(p) * (1 + 1.0 / 3));
}

}  // namespace
}  // namespace ebbtide
