// The text form of a graph plan.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "planner/json_reader.h"
#include "planner/plan.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

struct Form {
  Action::Do what;
  const char* word;
  const char* index;  // the member that names the op, stage or value
};
constexpr Form kForms[] = {
    {Action::Do::kForward, "forward", "op"},
    {Action::Do::kBackward, "backward", "stage"},
    {Action::Do::kRecompute, "recompute", "op"},
    {Action::Do::kFree, "free", "value"},
    {Action::Do::kOffload, "offload", "value"},
    {Action::Do::kRestore, "restore", "value"},
};

Action ReadAction(JsonReader& reader, const Json& json) {
  Action action;
  std::string word;
  reader.String(json, "do", &word);
  for (const Form& form : kForms) {
    if (word != form.word) continue;
    reader.Members(json, {"do", form.index});
    action.what = form.what;
    reader.Int(json, form.index, 0, std::numeric_limits<int>::max(),
               &action.index);
    return action;
  }
  reader.Fail("do", absl::StrCat("expected forward, backward, recompute, "
                                 "free, offload or restore, got \"",
                                 word, "\""));
  return action;
}

void ReadBytes(JsonReader& reader, const Json& object, const char* key,
               Bytes* out) {
  int64_t count = 0;
  reader.Integer(object, key, 0, JsonReader::kMax, &count);
  *out = Bytes{count};
}

void ReadPlan(JsonReader& reader, const Json& json, Plan* plan) {
  reader.Members(
      json, {"kind", "version", "solver", "budget", "feasible", "time", "peak",
             "lower_bound_time", "bound_witness", "gap", "least_budget",
             "floor_witness", "plan_seconds", "actions"});
  std::string kind;
  reader.String(json, "kind", &kind);
  if (kind != "plan") {
    reader.Fail("kind", absl::StrCat("expected \"plan\", got \"", kind, "\""));
  }
  int version = 0;
  reader.Int(json, "version", kVersion, kVersion, &version);
  reader.String(json, "solver", &plan->solver);
  ReadBytes(reader, json, "budget", &plan->budget);
  reader.Bool(json, "feasible", &plan->feasible);
  reader.Number(json, "lower_bound_time", 0, &plan->lower_bound_time);
  reader.String(json, "bound_witness", &plan->bound_witness);
  ReadBytes(reader, json, "least_budget", &plan->least_budget);
  reader.String(json, "floor_witness", &plan->floor_witness);
  reader.Number(json, "plan_seconds", 0, &plan->plan_seconds);
  reader.Each(json, "actions", [&](const Json& element) {
    plan->actions.push_back(ReadAction(reader, element));
  });
  if (!plan->feasible) return;  // time and peak are null: there is no plan
  reader.Number(json, "time", 0, &plan->time);
  ReadBytes(reader, json, "peak", &plan->peak);
}

Json ActionToJson(const Action& action) {
  for (const Form& form : kForms) {
    if (form.what != action.what) continue;
    return {{"do", form.word}, {form.index, action.index}};
  }
  return nullptr;
}

}  // namespace

std::string PlanToJson(const Plan& plan) {
  Json actions = Json::array();
  for (const Action& action : plan.actions) {
    actions.push_back(ActionToJson(action));
  }
  Json json = {{"kind", "plan"},
               {"version", kVersion},
               {"solver", plan.solver},
               {"budget", Count(plan.budget)},
               {"feasible", plan.feasible},
               {"time", nullptr},
               {"peak", nullptr},
               {"lower_bound_time", plan.lower_bound_time},
               {"bound_witness", plan.bound_witness},
               {"gap", nullptr},
               {"plan_seconds", plan.plan_seconds},
               {"least_budget", Count(plan.least_budget)},
               {"floor_witness", plan.floor_witness},
               {"actions", std::move(actions)}};
  if (plan.feasible) {
    json["time"] = plan.time;
    json["peak"] = Count(plan.peak);
    if (plan.lower_bound_time > 0) {
      json["gap"] = plan.time / plan.lower_bound_time - 1;
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Plan> PlanFromJson(absl::string_view text,
                                  absl::string_view origin) {
  absl::StatusOr<Json> json = ParseJson(text, origin);
  if (!json.ok()) return json.status();
  JsonReader reader(origin);
  Plan plan;
  ReadPlan(reader, *json, &plan);
  if (!reader.ok()) return reader.status();
  return plan;
}

}  // namespace ebbtide
