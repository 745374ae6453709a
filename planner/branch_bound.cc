#include "planner/branch_bound.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>

namespace ebbtide {
namespace {

// Steps of the ascent in each node: in the same time 15 and 40 prove less on
// the hardest network of the tests (11.47 and 11.50 to 11.60 % of a step).
constexpr int kSteps = 25;
constexpr int64_t kMostNodes = 50000;  // all open nodes are held in memory
constexpr size_t kMostInstants = 6;
// Nodes of the trees that try a further instant: where the ascent alone finds
// none that gives more, a few decisions often do.
constexpr int64_t kTryNodes[] = {1, 32};
constexpr double kGain = 1 + 1e-4;

struct Node {
  Time bound = 0;
  int64_t number = 0;  // so that equal bounds come in one order
  size_t level = 0;    // instants beyond those of the root
  std::vector<KeepDecision> decisions;
  KeepDecision branch;
  // Those of the parent, shared by both children, unless its own were better.
  std::shared_ptr<const SequencePrices> prices;
};

bool ComesLater(const Node& a, const Node& b) {
  return a.bound != b.bound ? a.bound > b.bound : a.number < b.number;
}

class Tree {
 public:
  Tree(const Graph& graph, const HostRooms& host, const BranchOptions& options,
       const std::vector<int>& instants)
      : graph_(graph), host_(host), options_(options), open_(ComesLater) {
    AddLevel(instants);
  }

  // A node whose bound, decisions, level and first prices are set.
  void Add(Node node) {
    SequenceProblem& problem = *levels_[node.level];
    node.number = nodes_++;
    if (!problem.Decide(node.decisions)) return;
    SequenceAscent ascent{.bound = node.bound, .prices = *node.prices};
    problem.Ascend(kSteps, options_.upper, options_.stop, &ascent);
    if (ascent.bound >= options_.upper) return;
    node.branch = ascent.branch;
    if (ascent.bound > node.bound) {
      node.bound = ascent.bound;
      node.prices = std::make_shared<SequencePrices>(std::move(ascent.prices));
    }
    open_.push(std::move(node));
  }

  // The least bound of all nodes, open and ended, once there are `most`.
  Time Grow(int64_t most, size_t most_instants) {
    Time ended = options_.upper;
    while (!open_.empty() && open_.top().bound < ended) {
      if (nodes_ >= most || options_.stop()) break;
      const Node node = open_.top();
      open_.pop();
      if (node.branch.value >= 0) {
        Split(node);
      } else if (!GoOn(node, most_instants)) {
        ended = std::min(ended, node.bound);
      }
    }
    return open_.empty() ? ended : std::min(ended, open_.top().bound);
  }

  int64_t nodes() const { return nodes_; }
  const std::vector<int>& instants() const {
    return levels_.back()->instants();
  }

 private:
  void AddLevel(const std::vector<int>& instants) {
    levels_.push_back(std::make_unique<SequenceProblem>(graph_, options_.budget,
                                                        host_, instants));
  }

  void Split(const Node& node) {
    for (bool keep : {true, false}) {
      Node child = node;
      child.decisions.push_back(node.branch);
      child.decisions.back().keep = keep;
      Add(std::move(child));
    }
  }

  // With one instant more. False if there is none.
  bool GoOn(const Node& node, size_t most_instants) {
    if (node.level + 1 == levels_.size()) {
      if (instants().size() >= most_instants || !Lengthen(node)) return false;
    }
    const std::vector<int>& after = levels_[node.level + 1]->instants();
    Node child = node;
    ++child.level;
    child.prices = std::make_shared<SequencePrices>(
        PricesFor(*node.prices, levels_[node.level]->instants(), after));
    Add(std::move(child));
    return true;
  }

  // By the instant that gives most for this node.
  bool Lengthen(const Node& node) {
    Time most = node.bound * kGain;
    int best = -1;
    for (int64_t nodes : kTryNodes) {
      for (int instant : options_.candidates) {
        const Time bound = Try(node, instant, nodes);
        if (options_.stop()) return false;
        if (bound <= most) continue;
        most = bound;
        best = instant;
      }
      if (best >= 0) break;
    }
    if (best < 0) return false;
    AddLevel(WithInstant(graph_, instants(), best));
    return true;
  }

  // The bound that a small tree from this node gives with one instant more.
  Time Try(const Node& node, int instant, int64_t nodes) const {
    const std::vector<int> after = WithInstant(graph_, instants(), instant);
    if (after.empty()) return 0;
    Tree tree(graph_, host_, options_, after);
    Node root = node;
    root.level = 0;
    root.prices = std::make_shared<SequencePrices>(
        PricesFor(*node.prices, instants(), after));
    tree.Add(std::move(root));
    return tree.Grow(nodes, 0);
  }

  const Graph& graph_;
  const HostRooms& host_;
  const BranchOptions& options_;
  std::vector<std::unique_ptr<SequenceProblem>> levels_;
  std::priority_queue<Node, std::vector<Node>, decltype(&ComesLater)> open_;
  int64_t nodes_ = 0;
};

}  // namespace

BranchResult BranchAndBound(const Graph& graph, const HostRooms& host,
                            const std::vector<int>& instants,
                            const SequenceAscent& root,
                            const BranchOptions& options) {
  Tree tree(graph, host, options, instants);
  tree.Add({.bound = root.bound,
            .prices = std::make_shared<SequencePrices>(root.prices)});
  const Time bound = tree.Grow(kMostNodes, kMostInstants);
  return {.bound = bound, .nodes = tree.nodes(), .instants = tree.instants()};
}

}  // namespace ebbtide
