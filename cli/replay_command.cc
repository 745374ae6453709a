// ebbtide replay TRACE [--policy NAME] [--steps N] [--json] [-o OUT.csv]
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/replay/policy.h"
#include "allocator/replay/replay.h"
#include "cli/command.h"
#include "cli/input.h"
#include "planner/buffer_trace.h"
#include "planner/place.h"
#include "planner/place_bound.h"
#include "planner/place_validate.h"
#include "planner/snapshot_trace.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::string input;
  std::string policy = "plan";
  std::string output;
  int steps = 1;
  bool json = false;
};

struct Answer {
  PlaceBound bound;
  std::vector<ReplayStep> steps;
  std::vector<Bytes> offsets;
  // Facts about a plan.
  std::string by;
  Bytes least{};
  int64_t nodes = 0;
};

absl::StatusOr<Answer> Plan(const BufferTrace& trace, int steps) {
  auto placed = Place(trace.problem);
  if (!placed.ok()) return placed.status();
  const absl::Status valid =
      ValidatePlacement(trace.problem, placed->placement);
  if (!valid.ok()) return absl::InternalError(valid.message());
  Answer answer = {.bound = placed->bound,
                   .steps = {},
                   .offsets = placed->placement.offsets,
                   .by = placed->by,
                   .least = placed->least,
                   .nodes = placed->nodes};
  // One arena, taken once.
  answer.steps.assign(steps, {placed->placement.height, 0});
  answer.steps[0].driver_calls = 1;
  return answer;
}

absl::StatusOr<Answer> Answered(const BufferTrace& trace,
                                const Arguments& arguments) {
  if (arguments.policy == "plan") return Plan(trace, arguments.steps);
  const auto policy = MakeReplayPolicy(arguments.policy);
  if (policy == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--policy: expected plan, native, expandable, firstfit, "
                     "bestfit or rmm-pool, got \"",
                     arguments.policy, "\""));
  }
  auto replayed = Replay(trace, arguments.steps, policy.get());
  if (!replayed.ok()) return replayed.status();
  return Answer{.bound = LowerBound(trace.problem),
                .steps = replayed->steps,
                .offsets = replayed->addresses,
                .by = "",
                .least = {},
                .nodes = 0};
}

// Per cent over the bound.
double Waste(const Answer& answer, Bytes height) {
  const auto bound = static_cast<double>(Count(answer.bound.bytes));
  if (bound == 0) return 0;
  return 100 * (static_cast<double>(Count(height)) - bound) / bound;
}

nlohmann::json ToJson(const BufferTrace& trace, const Arguments& arguments,
                      const Answer& answer) {
  const Bytes height = answer.steps.back().reserved;
  nlohmann::json json = {{"policy", arguments.policy},
                         {"buffers", trace.ids.size()},
                         {"lower_bound", Count(answer.bound.bytes)},
                         {"height", Count(height)},
                         {"waste", Waste(answer, height)},
                         {"steps", nlohmann::json::array()},
                         {"witness", nlohmann::json::array()},
                         {"instant", nullptr}};
  for (const ReplayStep& step : answer.steps) {
    json["steps"].push_back({{"height", Count(step.reserved)},
                             {"waste", Waste(answer, step.reserved)},
                             {"driver_calls", step.driver_calls}});
  }
  for (int id : answer.bound.live) json["witness"].push_back(trace.ids[id]);
  if (answer.bound.instant) json["instant"] = *answer.bound.instant;
  if (!answer.by.empty()) {
    json["by"] = answer.by;
    json["least"] = Count(answer.least);
    json["nodes"] = answer.nodes;
  }
  return json;
}

Exit Run(const Arguments& arguments) {
  const absl::StatusOr<std::string> text = ReadFile(arguments.input);
  if (!text.ok()) return ExitFor(text.status());
  const auto trace = IsPickle(*text)
                         ? BufferTraceFromSnapshot(*text, arguments.input)
                         : BufferTraceFromCsv(*text, arguments.input);
  if (!trace.ok()) return ExitFor(trace.status());
  const absl::StatusOr<Answer> answer = Answered(*trace, arguments);
  if (!answer.ok()) {
    return ExitFor(absl::Status(
        answer.status().code(),
        absl::StrCat(arguments.input, ": ", answer.status().message())));
  }
  if (!arguments.output.empty()) {
    const absl::Status written =
        WriteFile(arguments.output, PlacementToCsv(*trace, answer->offsets));
    if (!written.ok()) return ExitFor(written);
  }
  const nlohmann::json json = ToJson(*trace, arguments, *answer);
  if (arguments.json) {
    std::printf("%s\n", json.dump().c_str());
    return Exit::kDone;
  }
  const ReplayStep& last = answer->steps.back();
  std::printf(
      "%s\n",
      absl::StrFormat("%s: %d bytes for %d buffers, %.2f %% over the "
                      "bound of %d; %d driver calls in step %d",
                      arguments.policy, Count(last.reserved), trace->ids.size(),
                      Waste(*answer, last.reserved), Count(answer->bound.bytes),
                      last.driver_calls, answer->steps.size())
          .c_str());
  return Exit::kDone;
}

}  // namespace

void AddReplayCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "replay", "What an allocator's policy reserves for an allocation trace");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("trace", arguments->input,
                   "id,lower,upper,size[,alignment][,gaps][,offset], RMM's "
                   "log, or a memory snapshot of PyTorch")
      ->required()
      ->type_name("TRACE");
  command->add_option("--policy", arguments->policy,
                      "plan (the default), native, expandable, firstfit, "
                      "bestfit, rmm-pool");
  command
      ->add_option("--steps", arguments->steps,
                   "How often the trace is repeated on the policy's state")
      ->check(CLI::Range(1, 10000));
  command->add_option("-o", arguments->output, "id,offset of each buffer")
      ->type_name("PLACEMENT.csv");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
