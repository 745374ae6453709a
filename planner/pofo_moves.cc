#include "planner/pofo_moves.h"

#include <algorithm>
#include <vector>

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

Bytes SizeOf(const Chain& chain, const ChainActions& actions,
             const PofoMove& move) {
  if (move.item == Item::kX) return chain.x[move.stage];
  for (const ChainAction& a : actions) {
    if (a.what == Do::kForward && a.stage == move.stage - 1 && a.save > 0) {
      return SavingWays(chain, a.stage)[a.save - 1].xb;
    }
  }
  return Bytes{};
}

struct Return {
  PofoMove move;
  Bytes size{};
  int need = 0;   // position of the first reader behind the loss
  int start = 0;  // action that the copy starts before
};

// In the order of need. Each as early as it fits from then on, but not before
// the one in front of it.
std::vector<Return> PlaceReturns(const Chain& chain,
                                 const ChainActions& actions,
                                 absl::Span<const PofoMove> moves, int loss,
                                 Bytes budget) {
  std::vector<Bytes> live;
  for (const ComputeCost& cost : ComputeCosts(chain, actions)) {
    live.push_back(cost.bytes);
  }
  const int end = static_cast<int>(actions.size());
  std::vector<Return> returns;
  for (const PofoMove& move : moves) {
    Return back{move, SizeOf(chain, actions, move), loss + 1};
    const auto reads = [&](const ChainAction& a) {
      return ReadsValue(a, move.stage, move.item);
    };
    while (back.need < end && !reads(actions[back.need])) ++back.need;
    for (int k = loss + 1; k < back.need; ++k) live[k] -= back.size;
    returns.push_back(back);
  }
  std::stable_sort(
      returns.begin(), returns.end(),
      [](const Return& a, const Return& b) { return a.need < b.need; });
  int first = loss + 1;
  for (Return& back : returns) {
    back.start = back.need;
    while (back.start > first && live[back.start - 1] + back.size <= budget) {
      --back.start;
    }
    for (int k = back.start; k < back.need; ++k) live[k] += back.size;
    first = back.start;
  }
  return returns;
}

}  // namespace

ChainActions PlaceMoves(const Chain& chain, const ChainActions& actions,
                        absl::Span<const PofoMove> moves, Bytes budget) {
  const ChainActions freed = AddFrees(Stages(chain), actions);
  const int loss = LossAt(actions);
  const std::vector<Return> returns =
      PlaceReturns(chain, actions, moves, loss, budget);
  ChainActions all;
  auto back = returns.begin();
  int next = 0;  // action of `actions`
  const auto leave = [&] {
    for (const PofoMove& move : moves) {
      if (move.maker != next - 1) continue;
      all.push_back({Do::kOffload, move.stage, 0, move.item});
    }
  };
  for (const ChainAction& a : freed) {
    if (a.what != Do::kFree) {
      leave();
      for (; back != returns.end() && back->start == next; ++back) {
        all.push_back({Do::kRestore, back->move.stage, 0, back->move.item});
      }
      ++next;
    }
    all.push_back(a);
  }
  return all;
}

}  // namespace ebbtide
