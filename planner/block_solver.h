// Plans for recorded graphs by way of their chains of blocks
// (planner/block_chain.h). Private to the planner.
#ifndef EBBTIDE_PLANNER_BLOCK_SOLVER_H_
#define EBBTIDE_PLANNER_BLOCK_SOLVER_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/chain_table.h"
#include "planner/graph.h"
#include "planner/graph_plan.h"

namespace ebbtide {

struct BlockSolver {
  ChainSolver kind;
  bool options = false;  // else each block is saved whole
};

// rotor, floating, unpinned, unpinned-floating: blocks saved whole. rockmate: a
// pinned plan with options, as published; rockmate-unpinned.
std::optional<BlockSolver> ParseBlockSolver(absl::string_view name);

// The best plan that is found, of that kind or one whose plans are of that
// kind, too. InvalidArgument where there are too many blocks for the solver.
absl::StatusOr<GraphPlan> SolveBlockChain(const Graph& graph,
                                          const GraphPlanOptions& options,
                                          BlockSolver solver);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BLOCK_SOLVER_H_
