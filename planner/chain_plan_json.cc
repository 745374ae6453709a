// The text form of a chain plan.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "planner/chain_plan.h"
#include "planner/json_reader.h"

namespace ebbtide {
namespace {

using Json = nlohmann::json;
using Do = ChainAction::Do;
using Item = ChainAction::Item;

constexpr int kVersion = 1;
constexpr int64_t kMostIndex = std::numeric_limits<int>::max() - 1;

struct Form {
  Do what;
  const char* word;
};
constexpr Form kForms[] = {
    {Do::kForward, "forward"},   {Do::kLoss, "loss"},
    {Do::kBackward, "backward"}, {Do::kFree, "free"},
    {Do::kOffload, "offload"},   {Do::kRestore, "restore"},
    {Do::kUpdate, "update"},
};

struct Value {
  Item item;
  const char* word;
  const char* index;  // the member that says which one
};
constexpr Value kValues[] = {
    {Item::kX, "x", "stage"},           {Item::kXb, "xb", "stage"},
    {Item::kWeight, "weight", "index"}, {Item::kGrad, "grad", "index"},
    {Item::kState, "state", "index"},
};

void ReadValue(JsonReader& reader, const Json& json, ChainAction* action) {
  std::string word;
  reader.String(json, "value", &word);
  for (const Value& value : kValues) {
    if (word != value.word) continue;
    action->item = value.item;
    reader.Members(json, {"do", "value", value.index});
    reader.Int(json, value.index, 0, kMostIndex, &action->stage);
    return;
  }
  reader.Fail("value", absl::StrCat("expected \"x\", \"xb\", \"weight\", "
                                    "\"grad\" or \"state\", got \"",
                                    word, "\""));
}

void ReadMembers(JsonReader& reader, const Json& json, ChainAction* action) {
  switch (action->what) {
    case Do::kLoss:
      reader.Members(json, {"do"});
      return;
    case Do::kForward:
      reader.Members(json, {"do", "stage", "save"});
      reader.Int(json, "save", 0, kMostIndex, &action->save);
      break;
    case Do::kBackward:
      reader.Members(json, {"do", "stage"});
      break;
    case Do::kUpdate:
      reader.Members(json, {"do", "index"});
      reader.Int(json, "index", 0, kMostIndex, &action->stage);
      return;
    case Do::kFree:
    case Do::kOffload:
    case Do::kRestore:
      ReadValue(reader, json, action);
      return;
  }
  reader.Int(json, "stage", 0, kMostIndex, &action->stage);
}

ChainAction ReadAction(JsonReader& reader, const Json& json) {
  ChainAction action;
  std::string word;
  reader.String(json, "do", &word);
  for (const Form& form : kForms) {
    if (word != form.word) continue;
    action.what = form.what;
    ReadMembers(reader, json, &action);
    return action;
  }
  reader.Fail("do", absl::StrCat("expected forward, loss, backward, free, "
                                 "offload, restore or update, got \"",
                                 word, "\""));
  return action;
}

void ReadBytes(JsonReader& reader, const Json& json, const char* key,
               Bytes* out) {
  int64_t count = 0;
  reader.Integer(json, key, 0, JsonReader::kMax, &count);
  *out = Bytes{count};
}

void ReadHead(JsonReader& reader, const Json& json, ChainPlan* plan) {
  reader.Members(json, {"kind", "version", "solver", "budget", "feasible",
                        "time", "peak", "lower_bound_time", "gap",
                        "plan_seconds", "least_budget", "rounding_loss",
                        "values_bound_time", "continuous_time", "actions"});
  if (reader.Has(json, "kind")) {
    std::string kind;
    reader.String(json, "kind", &kind);
    if (kind != "chain-plan") {
      reader.Fail("kind",
                  absl::StrCat("expected \"chain-plan\", got \"", kind, "\""));
    }
  }
  if (reader.Has(json, "version")) {
    int version = 0;
    reader.Int(json, "version", kVersion, kVersion, &version);
  }
  if (reader.Has(json, "solver")) {
    reader.String(json, "solver", &plan->solver);
  }
  if (reader.Has(json, "lower_bound_time")) {
    reader.Number(json, "lower_bound_time", 0, &plan->lower_bound_time);
  }
  if (reader.Has(json, "rounding_loss")) {
    reader.Number(json, "rounding_loss", 0, &plan->rounding_loss);
  }
  if (reader.Has(json, "values_bound_time")) {
    reader.Number(json, "values_bound_time", 0, &plan->values_bound_time);
  }
  if (reader.Has(json, "continuous_time")) {
    reader.Number(json, "continuous_time", 0, &plan->continuous_time);
  }
  if (reader.Has(json, "plan_seconds")) {
    reader.Number(json, "plan_seconds", 0, &plan->plan_seconds);
  }
  if (reader.Has(json, "least_budget")) {
    ReadBytes(reader, json, "least_budget", &plan->least_budget);
  }
}

void ReadPlan(JsonReader& reader, const Json& json, ChainPlan* plan) {
  ReadHead(reader, json, plan);
  reader.Bool(json, "feasible", &plan->feasible);
  if (plan->feasible) {
    reader.Number(json, "time", 0, &plan->time);
    ReadBytes(reader, json, "peak", &plan->peak);
    plan->budget = plan->peak;
  }
  if (reader.Has(json, "budget")) {
    ReadBytes(reader, json, "budget", &plan->budget);
  }
  reader.Each(json, "actions", [&](const Json& element) {
    plan->actions.push_back(ReadAction(reader, element));
  });
}

Json ActionToJson(const ChainAction& action) {
  Json json;
  for (const Form& form : kForms) {
    if (form.what == action.what) json["do"] = form.word;
  }
  switch (action.what) {
    case Do::kLoss:
      break;
    case Do::kForward:
      json["save"] = action.save;
      json["stage"] = action.stage;
      break;
    case Do::kBackward:
      json["stage"] = action.stage;
      break;
    case Do::kUpdate:
      json["index"] = action.stage;
      break;
    case Do::kFree:
    case Do::kOffload:
    case Do::kRestore: {
      const Value& value = kValues[static_cast<int>(action.item)];
      json["value"] = value.word;
      json[value.index] = action.stage;
      break;
    }
  }
  return json;
}

}  // namespace

std::string ChainPlanToJson(const ChainPlan& plan) {
  Json actions = Json::array();
  for (const ChainAction& action : plan.actions) {
    actions.push_back(ActionToJson(action));
  }
  Json json = {{"kind", "chain-plan"},
               {"version", kVersion},
               {"solver", plan.solver},
               {"budget", Count(plan.budget)},
               {"feasible", plan.feasible},
               {"time", nullptr},
               {"peak", nullptr},
               {"lower_bound_time", plan.lower_bound_time},
               {"gap", nullptr},
               {"rounding_loss", plan.rounding_loss},
               {"plan_seconds", plan.plan_seconds},
               {"least_budget", Count(plan.least_budget)},
               {"actions", std::move(actions)}};
  if (plan.values_bound_time > 0) {
    json["values_bound_time"] = plan.values_bound_time;
  }
  if (plan.continuous_time > 0) {
    json["continuous_time"] = plan.continuous_time;
  }
  if (plan.feasible) {
    json["time"] = plan.time;
    json["peak"] = Count(plan.peak);
    if (plan.lower_bound_time > 0) {
      json["gap"] = plan.time / plan.lower_bound_time - 1;
    }
  }
  return json.dump();
}

absl::StatusOr<ChainPlan> ChainPlanFromJson(absl::string_view text,
                                            absl::string_view origin) {
  absl::StatusOr<Json> json = ParseJson(text, origin);
  if (!json.ok()) return json.status();
  JsonReader reader(origin);
  ChainPlan plan;
  ReadPlan(reader, *json, &plan);
  if (!reader.ok()) return reader.status();
  return plan;
}

}  // namespace ebbtide
