// A plan for the chain of a graph's blocks, written as bits of the graph.
#include <algorithm>
#include <optional>
#include <utility>

#include "planner/block_chain.h"

namespace ebbtide {
namespace {

// Presence of a chain's values while a plan is followed.
struct State {
  explicit State(size_t blocks)
      : x(blocks + 1, 0), way(blocks, -1), is_made(blocks, 0) {}

  void Take(const ChainAction& action) {
    if (action.what == ChainAction::Do::kForward && action.save == 0) {
      x[action.stage + 1] = 1;
    } else if (action.what == ChainAction::Do::kForward) {
      way[action.stage] = action.save - 1;
      is_made[action.stage] = 1;
    } else if (action.what == ChainAction::Do::kFree) {
      if (action.item == ChainAction::Item::kX) x[action.stage] = 0;
      if (action.item == ChainAction::Item::kXb) way[action.stage - 1] = -1;
    }
  }

  std::vector<char> x;        // by border
  std::vector<int> way;       // by block: saved in this way; -1: not saved
  std::vector<char> is_made;  // by block: saved since the last stages
};

}  // namespace

class BlockChain::Writer {
 public:
  explicit Writer(const BlockChain& blocks)
      : blocks_(blocks),
        state_(blocks.parts_.size()),
        draft_(KeepAll(blocks.graph_, false)) {}

  void Follow(const ChainAction& action) {
    // A value freed directly behind a backward is gone after its last stage.
    if (action.what != ChainAction::Do::kFree) WriteLast();
    state_.Take(action);
    if (action.what == ChainAction::Do::kLoss) {
      std::fill(state_.is_made.begin(), state_.is_made.end(), 0);
      last_ = Last{static_cast<int>(blocks_.parts_.size()), -1};
    } else if (action.what == ChainAction::Do::kBackward) {
      Backward(action.stage);
    }
  }
  Draft Take() {
    WriteLast();
    return std::move(draft_);
  }

 private:
  // A stage whose bits are those of the state at the next action.
  struct Last {
    int blocks;  // those before are concerned
    int stage;
  };

  void Backward(int block) {
    const Part& part = blocks_.parts_[block];
    if (!blocks_.HasStages(block)) return;
    Write(block, part.first_stage, part.end_stage - 1);
    for (int j = 0; j <= block; ++j) {
      if (state_.is_made[j] != 0) MakeEarly(j, part.first_stage);
      state_.is_made[j] = 0;
    }
    if (const int way = state_.way[block]; way >= 0) {
      WriteStages(blocks_.graph_, part, blocks_.facts_[block],
                  blocks_.BitsOf(block, way), &draft_);
    }
    last_ = Last{block, part.end_stage - 1};
  }

  void WriteLast() {
    if (last_.has_value()) Write(last_->blocks, last_->stage, last_->stage + 1);
    last_.reset();
  }

  // The present values of the blocks before `block` stay after stages [first,
  // end).
  void Write(int block, int first, int end) {
    if (first >= end) return;
    for (int j = 0; j < block; ++j) {
      const PartFacts& facts = blocks_.facts_[j];
      const int way = state_.way[j];
      for (size_t n = 0; n < facts.values.size(); ++n) {
        if (facts.own[n] == 0) continue;
        Set(facts.values[n], first, end,
            way >= 0 && blocks_.BitsOf(j, way).Get(static_cast<int>(n), -1));
      }
    }
    for (int j = 0; j <= block; ++j) {
      if (state_.x[j] == 0 && (j == 0 || state_.way[j - 1] < 0)) continue;
      for (int v : blocks_.borders_[j].values) Set(v, first, end, 1);
    }
  }

  void Set(int v, int first, int end, char bit) {
    if (!blocks_.graph_.pinned[v]) draft_.bits.row(v).Set(first, end, bit);
  }

  // The block's saved values are made at once, not when they are first needed.
  void MakeEarly(int block, int stage) {
    const Graph& graph = blocks_.graph_;
    const PartFacts& facts = blocks_.facts_[block];
    const int way = state_.way[block];
    if (way < 0) return;
    const Retention& bits = blocks_.BitsOf(block, way);
    for (size_t n = 0; n < facts.values.size(); ++n) {
      const int v = facts.values[n];
      if (facts.own[n] == 0 || !graph.keepable[v] || graph.pinned[v]) continue;
      if (graph.needed_by[v].empty() || graph.needed_by[v].back() < stage) {
        continue;
      }
      if (bits.Get(static_cast<int>(n), -1)) draft_.bits.row(v).AddEarly(stage);
    }
  }

  const BlockChain& blocks_;
  State state_;
  Draft draft_;
  std::optional<Last> last_;
};

Draft BlockChain::DraftOf(absl::Span<const ChainAction> actions) const {
  Writer writer(*this);
  for (const ChainAction& action : actions) writer.Follow(action);
  return writer.Take();
}

}  // namespace ebbtide
