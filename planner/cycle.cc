#include "planner/cycle.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

template <class T>
int Last(const std::vector<T>& list) {
  return static_cast<int>(list.size()) - 1;
}

// The ops of the cycle and the items of weights, one after another.
class Builder {
 public:
  Builder(const Chain& chain, const ChainActions& actions)
      : c_(chain), actions_(actions), loss_(LossAt(actions)) {
    cycle_.d2h = chain.d2h;
    cycle_.h2d = chain.h2d;
    cycle_.host = chain.host;
    for (const ComputeCost& cost : ComputeCosts(chain, actions)) {
      cycle_.ops.push_back({cost.time, cost.bytes, cost.before});
    }
  }

  Cycle Build(bool values_move) {
    if (values_move) AddValues();
    for (int w = 0; w < static_cast<int>(c_.weights.size()); ++w) AddWeight(w);
    AddGaps();
    return std::move(cycle_);
  }

 private:
  // Values made by a forward before the loss and read behind it. The backward
  // of the last stage comes at once.
  void AddValues() {
    for (int k = 0; k < loss_; ++k) {
      const int made = actions_[k].stage + 1;
      if (made == Stages(c_)) continue;
      const Item what = actions_[k].save == 0 ? Item::kX : Item::kXb;
      CycleItem item{what, made, {}, {{k, true}}};
      item.bytes = what == Item::kX
                       ? c_.x[made]
                       : SavingWays(c_, made - 1)[actions_[k].save - 1].xb;
      for (int j = k + 1; j < cycle_.Ops() && !Makes(actions_[j], made); ++j) {
        if (ReadsValue(actions_[j], made, what)) {
          item.uses.push_back({j});
        }
      }
      if (item.uses.back().op > loss_) TakeOut(item);
    }
  }

  static bool Makes(const ChainAction& a, int value) {
    return a.what == Do::kForward && a.stage + 1 == value;
  }

  // The item's bytes are none of the ops' any more.
  void TakeOut(const CycleItem& item) {
    const int first = item.uses.front().op;
    const int last = item.uses.back().op;
    for (int k = first; k <= last; ++k) {
      cycle_.ops[k].bytes -= item.bytes;
      if (k > first) cycle_.ops[k].before -= item.bytes;
    }
    cycle_.items.push_back(item);
  }

  void AddWeight(int w) {
    const ChainWeight& weight = c_.weights[w];
    CycleItem value{Item::kWeight, w, weight.bytes, {}, true};
    CycleItem grad{Item::kGrad, w, weight.grad, {}, false};
    for (int k = 0; k < cycle_.Ops(); ++k) {
      const ChainAction& a = actions_[k];
      const bool reads = a.what != Do::kLoss &&
                         std::find(weight.stages.begin(), weight.stages.end(),
                                   a.stage) != weight.stages.end();
      if (!reads) continue;
      value.uses.push_back({k});
      if (a.what == Do::kBackward) grad.uses.push_back({k, true});
    }
    value.uses.back().writes = true;
    CycleUpdate update{value.uses.back().op};
    update.device = weight.update;
    update.host = weight.host_update;
    CycleItem state{Item::kState, w, weight.state, {{update.op, true}}, true};
    update.weight = Add(std::move(value));
    if (weight.grad > Bytes{}) update.grad = Add(std::move(grad));
    if (weight.state > Bytes{}) update.state = Add(std::move(state));
    cycle_.updates.push_back(update);
  }

  int Add(CycleItem item) {
    cycle_.items.push_back(std::move(item));
    return Last(cycle_.items);
  }

  void AddGaps() {
    for (int i = 0; i < static_cast<int>(cycle_.items.size()); ++i) {
      const CycleItem& item = cycle_.items[i];
      int copy = item.lasts ? AddCopy(i, item.uses.back().op) : -1;
      for (size_t u = 0; u + 1 < item.uses.size(); ++u) {
        if (item.uses[u].writes) copy = AddCopy(i, item.uses[u].op);
        if (IsValue(item) && !IsAroundLoss(item.uses[u], item.uses[u + 1])) {
          continue;
        }
        cycle_.gaps.push_back({i, item.uses[u].op, item.uses[u + 1].op, copy});
      }
      if (!item.lasts) continue;
      const int before = item.uses.front().op + cycle_.Ops();
      cycle_.gaps.push_back({i, item.uses.back().op, before, copy});
      for (CycleUpdate& update : cycle_.updates) {
        if (update.weight == i) update.gap = Last(cycle_.gaps);
      }
    }
  }

  // A value moves once: what a plan frees is forgotten.
  static bool IsValue(const CycleItem& item) { return item.what <= Item::kXb; }
  bool IsAroundLoss(const CycleUse& after, const CycleUse& before) const {
    return after.op < loss_ && loss_ < before.op;
  }

  int AddCopy(int item, int writer) {
    cycle_.copies.push_back({item, writer});
    return Last(cycle_.copies);
  }

  const Chain& c_;
  const ChainActions& actions_;
  const int loss_;
  Cycle cycle_;
};

}  // namespace

CyclePlan StayingPlan(const Cycle& cycle) {
  CyclePlan plan;
  plan.away.assign(cycle.gaps.size(), 0);
  for (const CycleGap& gap : cycle.gaps) plan.back.push_back(gap.before);
  plan.on_host.assign(cycle.updates.size(), 0);
  return plan;
}

int WaitFrom(const Cycle& cycle, int gap, int op) {
  return (cycle.gaps[gap].before - op + cycle.Ops()) % cycle.Ops();
}

std::vector<std::vector<int>> ReturnsByOp(const Cycle& cycle,
                                          const CyclePlan& plan) {
  std::vector<std::vector<int>> returns(cycle.ops.size());
  for (size_t g = 0; g < cycle.gaps.size(); ++g) {
    if (!plan.away[g]) continue;
    returns[plan.back[g] % cycle.Ops()].push_back(static_cast<int>(g));
  }
  for (int k = 0; k < cycle.Ops(); ++k) {
    std::stable_sort(returns[k].begin(), returns[k].end(), [&](int a, int b) {
      return WaitFrom(cycle, a, k) < WaitFrom(cycle, b, k);
    });
  }
  return returns;
}

std::vector<Bytes> LeastLive(const Cycle& cycle, const CyclePlan& plan) {
  const int ops = cycle.Ops();
  std::vector<Bytes> live;
  for (const CycleOp& op : cycle.ops) live.push_back(op.bytes);
  for (const CycleItem& item : cycle.items) {
    const int first = item.lasts ? 0 : item.uses.front().op;
    const int last = item.lasts ? ops - 1 : item.uses.back().op;
    for (int k = first; k <= last; ++k) live[k] += item.bytes;
  }
  for (size_t g = 0; g < cycle.gaps.size(); ++g) {
    if (!plan.away[g]) continue;
    const CycleGap& gap = cycle.gaps[g];
    for (int k = gap.after + 1; k < gap.before; ++k) {
      live[k % ops] -= cycle.items[gap.item].bytes;
    }
  }
  for (size_t u = 0; u < cycle.updates.size(); ++u) {
    const CycleUpdate& update = cycle.updates[u];
    if (!plan.on_host[u] || update.state < 0) continue;
    // It has one gap, in which it may be offloaded as well.
    for (int k = 0; k < ops; ++k) live[k] -= cycle.items[update.state].bytes;
  }
  return live;
}

Cycle CycleOf(const Chain& chain, const ChainActions& actions,
              bool values_move) {
  return Builder(chain, actions).Build(values_move);
}

Cycle KeptCycle(const Chain& chain) {
  return CycleOf(chain, KeepAll(Stages(chain)), /*values_move=*/false);
}

}  // namespace ebbtide
