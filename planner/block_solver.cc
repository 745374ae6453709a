#include "planner/block_solver.h"

#include <vector>

#include "absl/time/clock.h"
#include "planner/block_chain.h"
#include "planner/bound.h"
#include "planner/tightening.h"

namespace ebbtide {
namespace {

// Plans beyond the fastest one that fits, one after the other: what the chain
// says of its bytes is no order of what they are.
constexpr int kMostMisses = 32;

void AskTable(const BlockChain& blocks, ChainSolver kind,
              const GraphPlanOptions& options, Tightening* tightening) {
  const Chain& chain = blocks.chain();
  const Draft least = blocks.DraftOf(LeastChainPlan(chain, kind));
  const Bytes least_budget = LeastChainBudget(chain, kind);
  tightening->Look(least);
  const auto table = MakeChainTable(UsualSlotChain(chain, kind), kind);
  tightening->Ask([&](int64_t limit) -> std::optional<Draft> {
    const Bytes budget{limit - blocks.base()};
    if (budget < least_budget) return std::nullopt;
    const std::vector<ChainAction> actions = table->PlanAt(budget);
    // Rounding may hide the only plans.
    return actions.empty() ? least : blocks.DraftOf(actions);
  });
  int misses = 0;
  for (const CurvePoint& point : table->Curve()) {
    if (tightening->Within(point.time - BaseTime(chain))) continue;
    if (misses == kMostMisses || absl::Now() >= options.deadline) break;
    const Draft draft = blocks.DraftOf(table->PlanAt(point.budget));
    misses = tightening->Look(draft) <= options.budget ? 0 : misses + 1;
  }
}

// The kind and those whose plans are plans of its own, too.
std::vector<ChainSolver> KindsWithin(ChainSolver kind) {
  std::vector<ChainSolver> kinds;
  for (bool unpinned : {false, true}) {
    for (bool floating : {false, true}) {
      if (unpinned <= kind.unpinned && floating <= kind.floating) {
        kinds.push_back({.unpinned = unpinned, .floating = floating});
      }
    }
  }
  return kinds;
}

}  // namespace

std::optional<BlockSolver> ParseBlockSolver(absl::string_view name) {
  if (name == "rockmate") return BlockSolver{.options = true};
  if (name == "rockmate-unpinned") {
    return BlockSolver{.kind = {.unpinned = true}, .options = true};
  }
  const auto kind = ParseChainSolver(name);
  if (!kind.has_value()) return std::nullopt;
  return BlockSolver{.kind = *kind};
}

absl::StatusOr<GraphPlan> SolveBlockChain(const Graph& graph,
                                          const GraphPlanOptions& options,
                                          BlockSolver solver) {
  Tightening tightening(graph, options);
  const OverheadBound bound =
      BoundOverhead(graph, options.budget, options.offload,
                    [&] { return absl::Now() >= options.deadline; });
  if (!options.rebuild || graph.ops == 0) return tightening.Take(bound);
  const BlockChain blocks(graph, solver.kind, solver.options, options);
  if (auto s = CheckTableSize(blocks.chain(), solver.kind); !s.ok()) return s;
  for (ChainSolver kind : KindsWithin(solver.kind)) {
    AskTable(blocks, kind, options, &tightening);
  }
  return tightening.Take(bound);
}

}  // namespace ebbtide
