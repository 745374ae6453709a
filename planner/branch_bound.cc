#include "planner/branch_bound.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

// Of the ascent in each node: in the same time 15 and 40 prove less on the
// hardest network of the tests (11.47 and 11.50 to 11.60 % of a step).
constexpr int kSteps = 25;
constexpr int64_t kMostNodes = 50000;  // all open nodes are held in memory

struct Node {
  Time bound = 0;
  int64_t number = 0;  // so that equal bounds come in one order
  std::vector<PairDecision> decisions;
  PairDecision branch;
  // Those of the parent, shared by both children, unless its own were better.
  std::shared_ptr<const PairPrices> prices;
};

bool ComesLater(const Node& a, const Node& b) {
  return a.bound != b.bound ? a.bound > b.bound : a.number < b.number;
}

}  // namespace

BranchResult BranchAndBound(PairProblem& problem, PairAscent root, Time upper,
                            const std::function<bool()>& stop) {
  BranchResult result{.nodes = 1};
  Time closed = upper;  // the least bound of nodes that have no decision left
  std::priority_queue<Node, std::vector<Node>, decltype(&ComesLater)> open(
      ComesLater);
  open.push({.bound = root.bound,
             .branch = root.branch,
             .prices = std::make_shared<PairPrices>(std::move(root.prices))});
  while (!open.empty() && open.top().bound < closed) {
    if (stop() || result.nodes >= kMostNodes) break;
    const Node node = open.top();
    open.pop();
    if (node.branch.value < 0) {
      closed = std::min(closed, node.bound);
      continue;
    }
    for (bool keep : {true, false}) {
      Node child = node;
      child.number = ++result.nodes;
      child.decisions.push_back(node.branch);
      child.decisions.back().keep = keep;
      if (!problem.Decide(child.decisions)) continue;
      PairAscent ascent{.bound = node.bound, .prices = *node.prices};
      problem.Ascend(kSteps, upper, stop, &ascent);
      if (ascent.bound >= upper) continue;
      child.branch = ascent.branch;
      if (ascent.bound > node.bound) {
        child.bound = ascent.bound;
        child.prices = std::make_shared<PairPrices>(std::move(ascent.prices));
      }
      open.push(std::move(child));
    }
  }
  result.bound = closed;
  if (!open.empty()) result.bound = std::min(closed, open.top().bound);
  return result;
}

}  // namespace ebbtide
