// Fuzzes the JSON forms of the planner with libFuzzer: a text that is accepted
// must be valid, and what is written of it must read back as the same text.
//
// Build and run: ./dev fuzz
#include <cstdint>
#include <cstdlib>
#include <string>

#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/chain_simulate.h"
#include "planner/chain_validate.h"
#include "planner/plan.h"
#include "planner/profile.h"
#include "planner/simulate.h"
#include "planner/size.h"
#include "planner/validate.h"

namespace ebbtide {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// Any plan may be tried on any input: it is refused or it is valid, and both
// judges agree on what a valid one takes.
void TryPlan(const Profile& profile, const Plan& plan) {
  const auto verdict = Validate(profile, plan.actions, plan.budget);
  if (!verdict.ok()) return;
  const auto simulation = Simulate(profile, plan.actions, plan.budget);
  Require(simulation.ok() && simulation->time == verdict->time &&
          simulation->peak == verdict->peak);
}

void TryPlan(const Chain& chain, const ChainPlan& plan) {
  const auto verdict = ValidateChain(chain, plan.actions, plan.budget);
  if (!verdict.ok()) return;
  const auto simulation = SimulateChain(chain, plan.actions, plan.budget);
  Require(simulation.ok() && simulation->time == verdict->time &&
          simulation->peak == verdict->peak);
}

void FuzzGraph(const std::string& input, const std::string& plan_text) {
  const auto profile = ProfileFromJson(input, "fuzz");
  if (profile.ok()) {
    const std::string text = ProfileToJson(*profile);
    const auto back = ProfileFromJson(text, "fuzz");
    Require(back.ok() && ProfileToJson(*back) == text);
  }
  const auto plan = PlanFromJson(plan_text, "fuzz");
  if (!plan.ok()) return;
  const std::string text = PlanToJson(*plan);
  const auto back = PlanFromJson(text, "fuzz");
  Require(back.ok() && PlanToJson(*back) == text);
  if (profile.ok()) TryPlan(*profile, *plan);
}

void FuzzChain(const std::string& input, const std::string& plan_text) {
  const auto chain = ChainFromJson(input, "fuzz");
  if (chain.ok()) {
    const std::string text = ChainToJson(*chain);
    const auto back = ChainFromJson(text, "fuzz");
    Require(back.ok() && ChainToJson(*back) == text);
  }
  const auto plan = ChainPlanFromJson(plan_text, "fuzz");
  if (!plan.ok()) return;
  const std::string text = ChainPlanToJson(*plan);
  const auto back = ChainPlanFromJson(text, "fuzz");
  Require(back.ok() && ChainPlanToJson(*back) == text);
  if (chain.ok()) TryPlan(*chain, *plan);
}

}  // namespace
}  // namespace ebbtide

// The input and a plan for it, separated by a line break.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  const std::string input = text.substr(0, line);
  const std::string plan =
      line == std::string::npos ? text : text.substr(line + 1);
  ebbtide::FuzzGraph(input, plan);
  ebbtide::FuzzChain(input, plan);
  const auto budget = ebbtide::ParseBudget(text);
  ebbtide::Require(!budget.ok() || !budget->empty());
  return 0;
}
