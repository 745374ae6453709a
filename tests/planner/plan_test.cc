#include "planner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ebbtide {
namespace {

using ::testing::HasSubstr;
using Do = Action::Do;

Plan SamplePlan() {
  Plan plan;
  plan.solver = "graph";
  plan.budget = Bytes{12};
  plan.feasible = true;
  plan.time = 0.1 + 0.2;
  plan.peak = Bytes{11};
  plan.lower_bound_time = 0.3;
  plan.bound_witness = "stage 1 relu' and stage 6 cat'";
  plan.least_budget = Bytes{9};
  plan.plan_seconds = 0.25;
  plan.floor_witness = "op 3 aten::mm";
  plan.actions = {{Do::kForward, 0},   {Do::kOffload, 0},  {Do::kRestore, 0},
                  {Do::kRecompute, 0}, {Do::kBackward, 0}, {Do::kFree, 0}};
  return plan;
}

template <class Edit>
std::string MessageAfter(Edit edit) {
  auto json = nlohmann::json::parse(PlanToJson(SamplePlan()));
  edit(json);
  const auto plan = PlanFromJson(json.dump(), "plan.json");
  EXPECT_FALSE(plan.ok());
  return std::string(plan.status().message());
}

TEST(PlanTest, TextReadsBackBitForBit) {
  const Plan plan = SamplePlan();
  const auto back = PlanFromJson(PlanToJson(plan), "plan.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(PlanToJson(*back), PlanToJson(plan));
  EXPECT_EQ(back->time, plan.time);
  EXPECT_EQ(back->bound_witness, plan.bound_witness);
  EXPECT_EQ(back->actions, plan.actions);
}

TEST(PlanTest, AnInfeasiblePlanHasNoTimeAndNoPeak) {
  Plan plan;
  plan.solver = "graph";
  plan.least_budget = Bytes{9};
  const auto json = nlohmann::json::parse(PlanToJson(plan));
  EXPECT_TRUE(json["time"].is_null());
  EXPECT_TRUE(json["peak"].is_null());
  const auto back = PlanFromJson(json.dump(), "plan.json");
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_FALSE(back->feasible);
  EXPECT_EQ(back->least_budget, Bytes{9});
}

TEST(PlanTest, ErrorsNameTheFileThePlaceAndWhatWasExpected) {
  EXPECT_EQ(MessageAfter([](auto& j) { j["actions"][2]["do"] = "keep"; }),
            "plan.json: actions[2].do: expected forward, backward, recompute, "
            "free, offload or restore, got \"keep\"");
  EXPECT_THAT(MessageAfter([](auto& j) { j["actions"][0].erase("op"); }),
              HasSubstr("plan.json: actions[0].op: expected this member"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["actions"][0]["op"] = -1; }),
              HasSubstr("plan.json: actions[0].op: expected a value below"));
  EXPECT_THAT(MessageAfter([](auto& j) { j["time"] = nullptr; }),
              HasSubstr("plan.json: time: expected a number of at least 0"));
  EXPECT_THAT(MessageAfter([](auto& j) { j.erase("actions"); }),
              HasSubstr("plan.json: actions: expected this member"));
}

TEST(PlanTest, EveryTruncatedTextIsRefused) {
  const std::string text = PlanToJson(SamplePlan());
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(PlanFromJson(text.substr(0, n), "plan.json").ok()) << n;
  }
}

}  // namespace
}  // namespace ebbtide
