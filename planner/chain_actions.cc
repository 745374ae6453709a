#include "planner/chain_actions.h"

#include <algorithm>

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

}  // namespace

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

}  // namespace ebbtide
