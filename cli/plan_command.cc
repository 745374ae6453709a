// ebbtide plan INPUT.json --budget B [--solver NAME] [--time-limit S] [--json]
//              [-o PLAN.json]
#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/input.h"
#include "planner/chain_plan.h"
#include "planner/ilp/checkmate.h"
#include "planner/ilp/cycle_bound.h"
#include "planner/plan.h"
#include "planner/size.h"

namespace ebbtide {
namespace {

struct Arguments {
  std::string input;
  std::string budget;
  std::string solver = "auto";
  double time_limit = 5;
  int threads = 1;
  bool continuous = false;
  bool json = false;
  std::string output;
};

// Facts about a plan for the reader, in the units of its input.
struct Summary {
  std::string solver;
  bool feasible = false;
  std::string time;
  std::string peak;
  std::string budget;
  std::string least_budget;
  std::string witness;  // instant or value that needs the least budget, if
                        // known
  double gap = 0;
  std::string bound;  // its proof, or the plans for which it holds
  double rounding_loss = 0;
  double plan_seconds = 0;
  size_t actions = 0;
  std::string json;
};

template <class AnyPlan>
Summary Summarize(const AnyPlan& plan) {
  Summary summary;
  summary.solver = plan.solver;
  summary.feasible = plan.feasible;
  summary.gap =
      plan.lower_bound_time > 0 ? plan.time / plan.lower_bound_time - 1 : 0;
  summary.plan_seconds = plan.plan_seconds;
  summary.actions = plan.actions.size();
  return summary;
}

Summary SummarizeChain(const ChainPlan& plan) {
  Summary summary = Summarize(plan);
  summary.time = absl::StrCat(plan.time);
  summary.peak = absl::StrCat(Count(plan.peak));
  summary.budget = absl::StrCat(Count(plan.budget));
  summary.least_budget = absl::StrCat(Count(plan.least_budget));
  summary.rounding_loss = plan.rounding_loss;
  if (plan.continuous_time > 0) {
    summary.time += absl::StrCat(" (", plan.continuous_time,
                                 " if bytes left while they are copied)");
  }
  summary.json = ChainPlanToJson(plan);
  return summary;
}

Summary SummarizeGraph(const Plan& plan) {
  Summary summary = Summarize(plan);
  summary.time = absl::StrFormat("%.3f ms", plan.time / 1e6);
  summary.peak = FormatSize(plan.peak);
  summary.budget = FormatSize(plan.budget);
  summary.least_budget = FormatSize(plan.least_budget);
  summary.witness = absl::StrCat(", for ", plan.floor_witness);
  if (plan.solver == "checkmate") {
    summary.bound = " of its kind";  // planner/ilp/checkmate.h
  } else if (!plan.bound_witness.empty()) {
    summary.bound = absl::StrCat(", by ", plan.bound_witness);
  }
  summary.json = PlanToJson(plan);
  return summary;
}

absl::StatusOr<Summary> SolveChain(const Chain& chain, Bytes budget,
                                   const Arguments& arguments) {
  auto plan = MakeChainPlan(chain, budget, arguments.solver, arguments.threads);
  if (!plan.ok()) return plan.status();
  if (arguments.continuous) {
    if (auto s = AddContinuousTime(chain, arguments.threads, &*plan); !s.ok()) {
      return s;
    }
  }
  if (chain.weights.empty() || !plan->feasible) return SummarizeChain(*plan);
  const bool joint = plan->values_bound_time > 0;
  const auto bound =
      BoundWeights(chain, budget, joint, absl::Seconds(arguments.time_limit));
  if (!bound.ok()) return bound.status();
  plan->lower_bound_time = std::max(plan->lower_bound_time, bound->time);
  Summary summary = SummarizeChain(*plan);
  summary.bound = " with all values kept";
  if (joint) {
    const Time sum =
        plan->lower_bound_time + plan->values_bound_time - LeastTime(chain);
    summary.bound = absl::StrFormat(
        ", %.2f %% from the sum of what weights and values "
        "take alone",
        100 * (plan->time / sum - 1));
  }
  return summary;
}

absl::StatusOr<Summary> Solve(const Input& input, Bytes budget,
                              const Arguments& arguments) {
  if (auto s = CheckThreads(input, arguments.threads); !s.ok()) return s;
  if (const Chain* chain = std::get_if<Chain>(&input)) {
    return SolveChain(*chain, budget, arguments);
  }
  if (arguments.continuous) {
    return absl::InvalidArgumentError("--continuous: expected a chain");
  }
  PlanOptions options;
  options.budget = budget;
  options.solver = arguments.solver;
  options.time_limit = absl::Seconds(arguments.time_limit);
  const auto solve =
      arguments.solver == "checkmate" ? SolveCheckmate : MakePlan;
  const auto plan = solve(std::get<Profile>(input), options);
  if (!plan.ok()) return plan.status();
  return SummarizeGraph(*plan);
}

Exit Report(const Summary& summary, const Arguments& arguments) {
  if (arguments.json) std::printf("%s\n", summary.json.c_str());
  if (!summary.feasible) {
    return NoPlan(summary.solver, summary.budget,
                  summary.least_budget + summary.witness);
  }
  if (!arguments.output.empty()) {
    if (auto s = WriteFile(arguments.output, summary.json); !s.ok()) {
      return ExitFor(s);
    }
  }
  if (arguments.json) return Exit::kDone;
  const double within = PercentAtMost(summary.gap);
  const double loss = PercentAtMost(summary.rounding_loss);
  const std::string rounded =
      loss > 0 ? absl::StrFormat(" (rounding sizes cost at most %.2f %%)", loss)
               : "";
  std::printf(
      "%s: time %s, within %.2f %% of optimal%s%s; peak %s of %s (least "
      "%s%s); %zu actions, planned in %.3f s\n",
      summary.solver.c_str(), summary.time.c_str(), within,
      summary.bound.c_str(), rounded.c_str(), summary.peak.c_str(),
      summary.budget.c_str(), summary.least_budget.c_str(),
      summary.witness.c_str(), summary.actions, summary.plan_seconds);
  return Exit::kDone;
}

Exit Run(const Arguments& arguments) {
  const absl::StatusOr<Bytes> budget = ParsePlanBudget(arguments.budget);
  if (!budget.ok()) return ExitFor(budget.status());
  const absl::StatusOr<Input> input = ReadInput(arguments.input);
  if (!input.ok()) return ExitFor(input.status());
  const absl::StatusOr<Summary> summary = Solve(*input, *budget, arguments);
  if (!summary.ok()) {
    return ExitFor(absl::Status(
        summary.status().code(),
        absl::StrCat(arguments.input, ": ", summary.status().message())));
  }
  return Report(*summary, arguments);
}

constexpr char kChainForm[] =
    R"(A chain of L stages is a file in one unit of time and one of size:
  {"kind":"chain", "fw":[L], "bw":[L+1], "x":[L+1], "xb":[L+1], "ft":[L],
   "bt":[L+1], "bandwidth":{"d2h":..,"h2d":..}, "host":..,
   "options":[{"stage":i,"fw":..,"bw":..,"xb":..,"ft":..,"bt":..}, ..],
   "weights":[{"stages":[i, ..],"bytes":..,"grad":..,"state":..,
               "update":..,"host_update":..}, ..]}
Stage i reads x[i], saves xb[i+1] with its output x[i+1] in it, and works with ft[i]
and bt[i]; bw[L] and bt[L] are the loss's. May be left out: bandwidth, host, options
(other ways to save a stage), weights, and of those update and host_update, the time
of an update on the device and on the host.)";

}  // namespace

void AddPlanCommand(CLI::App& app, Exit* exit) {
  CLI::App* command = app.add_subcommand(
      "plan", "What to keep, recompute and offload within a budget");
  command->footer(kChainForm);
  auto arguments = std::make_shared<Arguments>();
  command->add_option("input", arguments->input, "A chain or a profile")
      ->required()
      ->type_name("INPUT.json");
  command
      ->add_option("--budget", arguments->budget,
                   "Size, as 8GiB; for a chain in its own unit")
      ->required();
  command->add_option(
      "--solver", arguments->solver,
      "Chains: auto, rotor, floating, unpinned, "
      "unpinned-floating, pofo, minpeak, minpeak-cubic, keep; with weights: "
      "auto, joint, weights, greedy, greedy-star; profiles: auto, "
      "graph, "
      "hierarchical, rockmate and rockmate-unpinned (as chains of blocks with "
      "options), rotor, floating, unpinned and unpinned-floating (of blocks "
      "saved whole), keep, demand, dtr (what evicting as memory "
      "runs short would do, in our order and in DTR's), "
      "checkmate (exact, for small ones)");
  command->add_option("--time-limit", arguments->time_limit, "Seconds")
      ->check(CLI::Range(0.0, 1e6));
  AddThreadsOption(command, &arguments->threads);
  command->add_flag("--continuous", arguments->continuous,
                    "With pofo: also the time in its authors' model, where "
                    "bytes leave and come while they are copied");
  command->add_flag("--json", arguments->json, "Print the plan as JSON");
  command->add_option("-o,--output", arguments->output, "Write the plan here")
      ->type_name("PLAN.json");
  command->callback([arguments, exit] { *exit = Run(*arguments); });
}

}  // namespace ebbtide
