#include "profiler/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

BytesByKind Live(int64_t parameters, int64_t saved) {
  BytesByKind live{};
  live[static_cast<int>(Kind::kParameter)] = Bytes{parameters};
  live[static_cast<int>(Kind::kSaved)] = Bytes{saved};
  return live;
}

// Three whole steps, of which the last two followed a plan.
constexpr char kReport[] = R"({"state":"active","reason":"because",
  "first_step":1,"step_times":[9e-9,1.1e-8],"step_peaks":[14,13],
  "plans":[{"predicted_time":1e-8,"predicted_peak":12,"steps":[0,1,2]},
           {"predicted_time":1e-8,"predicted_peak":12,"steps":[]}],
  "not_replayable":{"a":1,"b":30},"saved":{"bytes":7}})";

Trace RunOfThreeOps() {
  Trace trace;
  trace.names = {"aten::mm", "aten::gelu"};
  trace.curve = {{1, Live(1, 5)}, {2, Live(2, 11)}, {3, Live(1, 12)}};
  trace.steps = {{.index = 0, .begin = 0, .end = 30, .peak = Bytes{12}},
                 {.index = 1, .begin = 30, .end = 40, .peak = Bytes{14}},
                 {.index = 2, .begin = 40, .end = 51, .peak = Bytes{13}},
                 {.index = 3, .begin = 51}};
  trace.budgets = {{0, Bytes{20}}, {5, Bytes{13}}};
  trace.evictions = {{1, 0, Bytes{4}, Eviction::How::kSpill},
                     {2, 1, Bytes{8}, Eviction::How::kDrop},
                     {3, 1, Bytes{8}, Eviction::How::kDrop}};
  trace.texts = {{0, TextKind::kProfile, "an earlier one"},
                 {1, TextKind::kProfile, ProfileToJson(ThreeOps())},
                 {2, TextKind::kReport, kReport}};
  trace.complete = true;
  return trace;
}

RunFacts SummaryOf(const Trace& trace) {
  const auto facts = FactsOf(SourceOf(trace));
  EXPECT_EQ(facts.status(), absl::OkStatus());
  return *facts;
}

Explanation ExplainTrace(const Trace& trace) {
  RunFacts run = SummaryOf(trace);
  const auto profile = ProfileFromJson(run.profile, "the trace");
  EXPECT_EQ(profile.status(), absl::OkStatus());
  auto explanation = Explain(*profile, std::move(run), {});
  EXPECT_EQ(explanation.status(), absl::OkStatus());
  return *std::move(explanation);
}

TEST(RunFactsTest, WhatTheTraceSays) {
  const RunFacts run = SummaryOf(RunOfThreeOps());
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.steps, 3);
  EXPECT_EQ(run.step_time, 11);
  EXPECT_EQ(run.budget, Bytes{13});
  // The bytes that a budget bounds were more than the live ones at any sample.
  EXPECT_EQ(run.peak, Bytes{14});
  EXPECT_EQ(run.peak_step, 1);
  EXPECT_EQ(run.live, Live(2, 11));
  ASSERT_EQ(run.evictions.size(), 2);
  EXPECT_EQ(run.evictions[0].name, "aten::gelu");
  EXPECT_EQ(run.evictions[0].drops, 2);
  EXPECT_EQ(run.evictions[0].dropped, Bytes{16});
  EXPECT_EQ(run.evictions[1].spilled, Bytes{4});
  EXPECT_EQ(run.profile, ProfileToJson(ThreeOps()));
}

TEST(RunFactsTest, PredictionsBesideWhatWasMeasured) {
  const RunFacts run = SummaryOf(RunOfThreeOps());
  ASSERT_TRUE(run.report.has_value());
  // Step 0 is forgotten, and the second plan was never followed.
  ASSERT_EQ(run.report->followed.size(), 1);
  const Followed& plan = run.report->followed[0];
  EXPECT_EQ(plan.steps, 2);
  EXPECT_DOUBLE_EQ(plan.predicted_time, 10);
  EXPECT_DOUBLE_EQ(plan.measured_time, 9);
  EXPECT_EQ(plan.predicted_peak, Bytes{12});
  EXPECT_EQ(plan.measured_peak, Bytes{14});
  ASSERT_EQ(run.report->obstacles.size(), 2);
  EXPECT_EQ(run.report->obstacles[0].why, "b");
}

TEST(RunFactsTest, AReportThatDoesNotParseIsNone) {
  Trace trace = RunOfThreeOps();
  for (const char* report : {"{", "[]", R"({"state":1})", R"({"state":"a"})"}) {
    trace.texts.back().text = report;
    EXPECT_FALSE(SummaryOf(trace).report.has_value()) << report;
  }
}

TEST(RunFactsTest, AnEmptyTraceSaysNothing) {
  const RunFacts run = SummaryOf(Trace());
  EXPECT_EQ(run.steps, 0);
  EXPECT_EQ(run.budget, Bytes{-1});
  EXPECT_FALSE(run.live.has_value());
  EXPECT_THAT(run.profile, IsEmpty());
}

TEST(ExplanationTest, APlanForTheRunsBudgetIsMadeAndSaidToBe) {
  const Explanation e = ExplainTrace(RunOfThreeOps());
  EXPECT_EQ(e.plan_source, "made for its budget");
  EXPECT_TRUE(e.plan.feasible);
  EXPECT_EQ(e.plan.budget, Bytes{13});
  EXPECT_LE(e.plan.peak, Bytes{13});
  EXPECT_THAT(e.unknown, Contains(HasSubstr("which plans the run followed")));
  EXPECT_EQ(e.names.size(), 3);
  ASSERT_TRUE(e.peak.has_value());
  Bytes sum = e.peak->other;
  for (const Holder& holder : e.peak->largest) sum += holder.bytes;
  EXPECT_EQ(sum, e.plan.peak);
}

TEST(ExplanationTest, TheRunsOwnPlanComesFirst) {
  Trace trace = RunOfThreeOps();
  const Plan plan = {.solver = "graph", .feasible = true, .actions = kRebuild};
  trace.texts.push_back({3, TextKind::kPlan, PlanToJson(plan)});
  const Explanation e = ExplainTrace(trace);
  EXPECT_EQ(e.plan_source, "trace");
  EXPECT_EQ(e.decisions[0].fate, Fate::kRecomputed);
  EXPECT_EQ(e.plan.time, 100);  // validated, not believed
  EXPECT_EQ(e.plan.peak, Bytes{15});
  EXPECT_THAT(e.unknown, Not(Contains(HasSubstr("which plans"))));

  trace.texts.back().text = PlanToJson({.feasible = true});
  const Explanation other = ExplainTrace(trace);
  EXPECT_EQ(other.plan_source, "made for its budget");
  EXPECT_THAT(other.unknown, Contains(HasSubstr("not one of the step")));
}

// Explain refused: "actions[..] needs 15 bytes, the budget is 14".
TEST(ExplanationTest, TheRunsOwnPlanMayNeedMoreThanTheBudgetItWasMadeFor) {
  Profile profile = ThreeOps();
  profile.ops[0].spread = {.steps = 4, .median = 30, .quartiles = 10};
  Trace trace = RunOfThreeOps();
  trace.texts[1].text = ProfileToJson(profile);
  Plan plan = {.solver = "graph", .feasible = true, .actions = kRebuild};
  plan.budget = Bytes{14};
  trace.texts.push_back({3, TextKind::kPlan, PlanToJson(plan)});
  const Explanation e = ExplainTrace(trace);
  EXPECT_EQ(e.plan_source, "trace");
  EXPECT_EQ(e.plan.budget, Bytes{15});
  ASSERT_EQ(e.doubts.size(), 1);
  EXPECT_GT(e.doubts[0].moves, 0);
}

// Block 1 is the largest of those alive after the fourth event, where most is.
TEST(ExplanationTest, RecordedHoldersWinOverThoseOfTheProfile) {
  using What = BlockEvent::What;
  Trace trace = RunOfThreeOps();
  trace.names.insert(trace.names.end(), {"[2, 3] float", "h.3.fc"});
  trace.curve.clear();
  trace.blocks = {
      {What::kAllocate, 1, 0, Bytes{3}, Kind::kParameter, -1, Bytes{1}},
      {What::kAllocate, 2, 1, Bytes{7}, Kind::kOther, 1, Bytes{1}},
      {What::kRetag, 3, 1, Bytes{}, Kind::kSaved, -1, Bytes{1}},
      {What::kAllocate, 4, 2, Bytes{2}, Kind::kScratch, -1, Bytes{2}},
      {What::kAllocate, 4, 3, Bytes{1}, Kind::kGradient, -1, Bytes{2}},
      {What::kFree, 5, 0, Bytes{}, Kind::kOther, -1, Bytes{2}},
      {What::kFree, 8, 1, Bytes{}, Kind::kOther, -1, Bytes{2}},
      {What::kAllocate, 9, 4, Bytes{1}, Kind::kOther, 0, Bytes{2}}};
  trace.notes = {{BlockNote::What::kShape, 1, 2},
                 {BlockNote::What::kMadeBy, 2, 0},
                 {BlockNote::What::kOfLayer, 1, 3},
                 {BlockNote::What::kOfLayer, 3, 3},
                 {BlockNote::What::kReturns, 2, -1, 0}};
  trace.evictions = {{1, 0, Bytes{4}, Eviction::How::kSpill, 0},
                     {7, 1, Bytes{7}, Eviction::How::kDrop, 1}};
  const Explanation e = ExplainTrace(trace);
  ASSERT_TRUE(e.peak.has_value());
  EXPECT_EQ(e.peak->source, "trace");
  EXPECT_EQ(e.peak->bytes, Bytes{15});
  EXPECT_EQ(e.peak->other, Bytes{2});
  EXPECT_EQ(e.peak->count, 4);
  ASSERT_EQ(e.peak->largest.size(), 4);
  EXPECT_EQ(e.peak->largest[0].name, "aten::gelu [2, 3] float");
  EXPECT_EQ(e.peak->largest[0].layer, "h.3.fc");
  EXPECT_EQ(e.peak->largest[0].kind, "saved");
  EXPECT_EQ(e.peak->largest[0].done, "dropped later");
  EXPECT_EQ(e.peak->largest[1].name, "of no recorded op");
  EXPECT_EQ(e.peak->largest[1].kind, "parameters");
  EXPECT_EQ(e.peak->largest[1].done, "");
  EXPECT_EQ(e.peak->largest[2].name, "aten::mm");
  EXPECT_EQ(e.peak->largest[2].layer, "");
  EXPECT_EQ(e.peak->largest[2].done, "brought back");
  // Whatever made it: the layer says it all.
  EXPECT_EQ(e.peak->largest[3].name, "");
  EXPECT_EQ(e.peak->largest[3].layer, "h.3.fc");
  EXPECT_EQ(FactsOf(SourceOf(trace), 1)->alive.size(), 1);
  EXPECT_EQ(FactsOf(SourceOf(trace), 1)->alive_bytes, Bytes{13});
}

TEST(ExplanationTest, BudgetsAreRoundAndReachFromTheFloorToThePeak) {
  const auto e = Explain(ThreeOps(), std::nullopt, {});
  ASSERT_EQ(e.status(), absl::OkStatus());
  EXPECT_EQ(e->plan_source, "keeps all");
  EXPECT_EQ(e->keeping->proven.bytes, Bytes{13});
  EXPECT_EQ(e->unit, Bytes{1});
  ASSERT_EQ(e->budgets.size(), 3);
  EXPECT_EQ(e->budgets.front().budget, e->keeping->proven.bytes);
  EXPECT_EQ(e->budgets.back().budget, UnmanagedPeak(ThreeOps()));
  EXPECT_EQ(e->budgets.back().keeping, BaseTime(ThreeOps()));
  EXPECT_FALSE(e->budgets.back().spilling.has_value());
  EXPECT_THAT(e->unknown, Contains(HasSubstr("no speed of copies")));
  EXPECT_THAT(e->unknown, Contains(HasSubstr("not a run")));
}

TEST(ExplanationTest, WhoMaySpillNeedNot) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const Profile p = RandomProfile(seed, 8, /*lanes=*/true);
    const auto e = Explain(p, std::nullopt, {});
    ASSERT_EQ(e.status(), absl::OkStatus());
    ASSERT_TRUE(e->spilling.has_value());
    for (const BudgetRow& row : e->budgets) {
      ASSERT_TRUE(row.spilling.has_value() || !row.keeping.has_value());
      EXPECT_LE(row.spilling.value_or(0), row.keeping.value_or(1e300));
    }
    EXPECT_LE(e->budgets.size(), 12);
    EXPECT_EQ(Count(e->unit) & (Count(e->unit) - 1), 0);
  }
}

TEST(ExplanationTest, EqualFilesGiveEqualExplanations) {
  for (uint32_t seed = 0; seed < 2; ++seed) {
    const Profile p = RandomProfile(seed, 12, /*lanes=*/true);
    const auto once = Explain(p, std::nullopt, {});
    const auto again = Explain(p, std::nullopt, {});
    ASSERT_EQ(once.status(), absl::OkStatus());
    EXPECT_EQ(ExplanationToJson(*once), ExplanationToJson(*again));
  }
}

TEST(ExplanationTest, ABudgetBelowTheFloorLeavesThePlanOut) {
  const auto e = Explain(ThreeOps(), std::nullopt, {.budget = Bytes{2}});
  ASSERT_EQ(e.status(), absl::OkStatus());
  EXPECT_FALSE(e->plan.feasible);
  EXPECT_FALSE(e->peak.has_value());
  EXPECT_THAT(e->decisions, IsEmpty());
  EXPECT_FALSE(e->budgets.empty());
}

TEST(ExplanationTest, ARunWithoutAProfileTellsWhatItMeasured) {
  Trace trace = RunOfThreeOps();
  trace.texts.clear();
  trace.complete = false;
  trace.damage = "a damaged record";
  const auto e = ExplainRun(SourceOf(trace), "run");
  ASSERT_EQ(e.status(), absl::OkStatus());
  EXPECT_THAT(e->unknown, Contains(HasSubstr("no profile")));
  EXPECT_THAT(e->unknown, Contains(HasSubstr("a damaged record")));
  const Json json = Json::parse(ExplanationToJson(*e));
  EXPECT_EQ(json["run"]["peak"], 14);
  for (const char* member : {"plan", "peak", "floor", "budgets", "prediction",
                             "coverage", "obstacles"}) {
    EXPECT_TRUE(json[member].is_null()) << member;
  }
}

TEST(ExplanationTest, TheKeysOfTheJsonStay) {
  const Json json =
      Json::parse(ExplanationToJson(ExplainTrace(RunOfThreeOps())));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("budgets", "coverage", "decisions", "doubts",
                                "floor", "kind", "obstacles", "out_of_memory",
                                "outliers", "peak", "plan", "prediction", "run",
                                "unknown", "version"));
  EXPECT_EQ(json["coverage"]["bytes"], 7);
  EXPECT_EQ(json["obstacles"][0]["bytes"], 30);
  EXPECT_EQ(json["prediction"][0]["measured_peak"], 14);
  EXPECT_EQ(json["run"]["live_by_kind"]["saved"], 11);
  EXPECT_EQ(json["floor"]["without_spilling"]["proven"], 13);
  EXPECT_EQ(json["floor"]["with_spilling"]["known"], nullptr);
  EXPECT_TRUE(json["doubts"].empty());
}

}  // namespace
}  // namespace ebbtide
