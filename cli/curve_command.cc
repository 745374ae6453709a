// ebbtide curve INPUT.json [--solver NAME] [--threads N] [--json]
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/input.h"
#include "planner/chain_plan.h"
#include "planner/plan.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::string input;
  std::string solver = "auto";
  double time_limit = 5;
  int threads = 1;
  bool json = false;
};

struct Curve {
  std::vector<CurvePoint> points;
  bool chain = false;
};

absl::StatusOr<Curve> Solve(const Input& input, const Arguments& arguments) {
  if (auto s = CheckThreads(input, arguments.threads); !s.ok()) return s;
  Curve curve;
  curve.chain = std::holds_alternative<Chain>(input);
  if (curve.chain) {
    auto points = MakeChainCurve(std::get<Chain>(input), arguments.solver,
                                 arguments.threads);
    if (!points.ok()) return points.status();
    curve.points = *std::move(points);
    return curve;
  }
  PlanOptions options;
  options.solver = arguments.solver;
  options.time_limit = absl::Seconds(arguments.time_limit);
  auto points = MakeCurve(std::get<Profile>(input), options);
  if (!points.ok()) return points.status();
  curve.points = *std::move(points);
  return curve;
}

void Print(const Curve& curve, bool json) {
  nlohmann::json list = nlohmann::json::array();
  for (const CurvePoint& point : curve.points) {
    if (json) {
      list.push_back({{"budget", Count(point.budget)}, {"time", point.time}});
      if (curve.chain) list.back()["rounding_loss"] = point.rounding_loss;
    } else if (curve.chain) {
      std::printf("%12s %12g %10.2f %%\n",
                  absl::StrCat(Count(point.budget)).c_str(), point.time,
                  PercentAtMost(point.rounding_loss));
    } else {
      std::printf("%14s %12.3f ms\n", FormatSize(point.budget).c_str(),
                  point.time / 1e6);
    }
  }
  if (json) std::printf("%s\n", list.dump().c_str());
}

Exit Run(const Arguments& arguments) {
  const absl::StatusOr<Input> input = ReadInput(arguments.input);
  if (!input.ok()) return ExitFor(input.status());
  const absl::StatusOr<Curve> curve = Solve(*input, arguments);
  if (!curve.ok()) {
    return ExitFor(absl::Status(
        curve.status().code(),
        absl::StrCat(arguments.input, ": ", curve.status().message())));
  }
  if (!arguments.json) {
    std::printf("%12s %12s%s\n", "budget", "time",
                curve->chain ? "  rounding <=" : "");
  }
  Print(*curve, arguments.json);
  return Exit::kDone;
}

}  // namespace

void AddCurveCommand(CLI::App& app, Exit* exit) {
  CLI::App* command =
      app.add_subcommand("curve", "Step time against budget, in one solve");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("input", arguments->input, "A chain or a profile")
      ->required()
      ->type_name("INPUT.json");
  command->add_option("--solver", arguments->solver,
                      "Chains: auto, rotor, floating, unpinned, "
                      "unpinned-floating, pofo, minpeak, minpeak-cubic, "
                      "keep; with weights: auto, joint, weights, greedy, "
                      "greedy-star; "
                      "profiles: auto, graph, keep, and all that `ebbtide "
                      "plan` has for them but checkmate");
  command
      ->add_option("--time-limit", arguments->time_limit,
                   "Seconds, for profiles")
      ->check(CLI::Range(0.0, 1e6));
  AddThreadsOption(command, &arguments->threads);
  command->add_flag("--json", arguments->json,
                    "Print [{\"budget\":..,\"time\":..}, ...]");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
