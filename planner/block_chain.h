// A recorded graph as a chain (planner/chain.h), after Rockmate (Zhao et al.,
// ICML 2023): blocks between separators are its stages, and what the graph
// solver finds for a block within limits on the bytes it saves are the stage's
// options. Equal blocks are solved once. Private to the planner.
//
// The chain's bytes are above those that are there all along (`base`), and they
// are close to the truth only: what a block keeps of itself while it runs is
// counted at its most. A plan for the chain becomes a draft for the graph,
// whose bytes are exact.
#ifndef EBBTIDE_PLANNER_BLOCK_CHAIN_H_
#define EBBTIDE_PLANNER_BLOCK_CHAIN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"
#include "planner/chain_table.h"
#include "planner/graph.h"
#include "planner/graph_plan.h"
#include "planner/part_menu.h"
#include "planner/part_profile.h"
#include "planner/separators.h"
#include "planner/uses.h"

namespace ebbtide {

class BlockChain {
 public:
  // With options of blocks, as many as `solver` may have of them, or each block
  // saved whole.
  BlockChain(const Graph& graph, ChainSolver solver, bool with_options,
             const GraphPlanOptions& options);

  const Chain& chain() const { return chain_; }
  int64_t base() const { return base_; }
  // The draft in which the graph's values follow a plan for the chain. The plan
  // must have passed SimulateChain.
  Draft DraftOf(absl::Span<const ChainAction> actions) const;
  // How many blocks are different.
  size_t menus() const { return menus_.size(); }

 private:
  class Writer;

  void MakeChain(size_t most);
  void AddBlock(int block, size_t most);
  ChainOption WayOf(int block, const PartOption& option) const;
  Bytes Workspace(int block, const std::vector<PartOption>& options) const;
  bool HasStages(int block) const;
  int64_t Before(int block) const;
  Bytes CrossingBytes(int border) const;
  int64_t PassingBytes(int block) const;
  const Retention& BitsOf(int block, int way) const;

  const Graph& graph_;
  const Uses uses_;
  const std::vector<Border> borders_;
  std::vector<Part> parts_;  // the blocks
  std::vector<PartFacts> facts_;
  std::vector<PartMenu> menus_;
  std::vector<std::vector<int>> drafts_;  // by way in their menu: drafts of
                                          // blocks
  int64_t base_ = 0;
  Chain chain_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BLOCK_CHAIN_H_
