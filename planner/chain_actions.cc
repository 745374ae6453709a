#include "planner/chain_actions.h"

#include <algorithm>

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

}  // namespace

ChainActions KeepAll(int stages) {
  ChainActions actions;
  for (int i = 0; i < stages; ++i) EmitForward(i, 1, &actions);
  actions.push_back({Do::kLoss});
  for (int i = stages - 1; i >= 0; --i) EmitBackward(i, &actions);
  return actions;
}

ChainActions AddFrees(int stages, const ChainActions& actions) {
  struct Use {
    int last = -1;  // action that read the output last
    Item item = Item::kX;
  };
  std::vector<Use> uses(stages + 1);
  std::vector<std::vector<ChainAction>> frees(actions.size());
  const auto drop = [&](int i) {
    if (i == 0 || uses[i].last < 0) return;
    frees[uses[i].last].push_back({Do::kFree, i, 0, uses[i].item});
    uses[i].last = -1;
  };
  for (int k = 0; k < static_cast<int>(actions.size()); ++k) {
    const ChainAction& a = actions[k];
    const int input = a.what == Do::kLoss ? stages : a.stage;
    uses[input].last = k;
    if (a.what == Do::kBackward) uses[input + 1].last = k;
    if (a.what == Do::kForward) {
      drop(input + 1);
      uses[input + 1].item = a.save == 0 ? Item::kX : Item::kXb;
    }
  }
  for (int i = 1; i <= stages; ++i) drop(i);
  ChainActions all;
  for (size_t k = 0; k < actions.size(); ++k) {
    all.push_back(actions[k]);
    std::sort(frees[k].begin(), frees[k].end(),
              [](const ChainAction& a, const ChainAction& b) {
                return a.stage < b.stage;
              });
    all.insert(all.end(), frees[k].begin(), frees[k].end());
  }
  return all;
}

int LossAt(const ChainActions& actions) {
  const auto is_loss = [](const ChainAction& a) { return a.what == Do::kLoss; };
  return static_cast<int>(
      std::find_if(actions.begin(), actions.end(), is_loss) - actions.begin());
}

std::vector<ComputeCost> ComputeCosts(const Chain& chain,
                                      const ChainActions& actions) {
  const int stages = Stages(chain);
  std::vector<std::vector<ChainOption>> ways;
  for (int i = 0; i < stages; ++i) ways.push_back(SavingWays(chain, i));
  std::vector<int> saved(stages + 1, 0);  // 0: as x; way + 1
  const auto size = [&](int i) {
    return saved[i] == 0 ? chain.x[i] : ways[i - 1][saved[i] - 1].xb;
  };
  std::vector<ComputeCost> costs;
  Bytes now = chain.x[0];
  for (const ChainAction& a : AddFrees(stages, actions)) {
    const Bytes before = now;
    if (a.what == Do::kFree) {
      now -= size(a.stage);
    } else if (a.what == Do::kForward) {
      const ChainOption& way = ways[a.stage][std::max(0, a.save - 1)];
      saved[a.stage + 1] = a.save;
      now += size(a.stage + 1);
      costs.push_back({way.fw, now + way.ft, before});
    } else if (a.what == Do::kLoss) {
      now += chain.x[stages];
      costs.push_back({chain.bw[stages], now + chain.bt[stages], before});
    } else {
      const ChainOption& way = ways[a.stage][saved[a.stage + 1] - 1];
      costs.push_back({way.bw, now + chain.x[a.stage] + way.bt, before});
      now += chain.x[a.stage] - chain.x[a.stage + 1];
    }
  }
  return costs;
}

bool ReadsValue(const ChainAction& action, int value, ChainAction::Item item) {
  if (action.what == Do::kBackward && action.stage == value - 1) {
    return item == Item::kXb;
  }
  return action.stage == value &&
         (action.what == Do::kForward || action.what == Do::kBackward);
}

}  // namespace ebbtide
