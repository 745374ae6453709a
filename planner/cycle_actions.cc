#include "planner/cycle_actions.h"

#include <algorithm>
#include <vector>

namespace ebbtide {
namespace {

using Do = ChainAction::Do;

class Writer {
 public:
  Writer(const Cycle& cycle, const CyclePlan& plan)
      : c_(cycle),
        plan_(plan),
        returns_(ReturnsByOp(cycle, plan)),
        frees_(cycle.ops.size()),
        offloads_(cycle.ops.size()),
        updates_(cycle.ops.size()) {
    for (const CycleUpdate& update : c_.updates) AddUpdate(update);
    for (size_t n = 0; n < c_.copies.size(); ++n) {
      AddCopy(static_cast<int>(n));
    }
  }

  ChainActions Write(int stages, const ChainActions& compute) const {
    ChainActions all;
    int op = -1;
    const auto end = [&] {
      if (op < 0) return;
      for (const auto& list : {frees_[op], offloads_[op], updates_[op]}) {
        all.insert(all.end(), list.begin(), list.end());
      }
    };
    for (const ChainAction& a : AddFrees(stages, compute)) {
      if (a.what != Do::kFree) {
        end();
        ++op;
        for (int g : returns_[op]) {
          all.push_back(Move(Do::kRestore, c_.gaps[g].item));
        }
      }
      all.push_back(a);
    }
    end();
    return all;
  }

 private:
  ChainAction Move(Do what, int item) const {
    return {what, c_.items[item].index, 0, c_.items[item].what};
  }

  bool IsOnHost(const CycleUpdate& update) const {
    return plan_.on_host[&update - c_.updates.data()];
  }

  void AddUpdate(const CycleUpdate& update) {
    if (IsOnHost(update)) {
      if (update.grad >= 0) {
        offloads_[update.op].push_back(Move(Do::kOffload, update.grad));
      }
      updates_[update.op].push_back(
          {Do::kUpdate, c_.items[update.weight].index});
    } else if (update.grad >= 0) {
      frees_[update.op].push_back(Move(Do::kFree, update.grad));
    }
  }

  bool IsUpdatedOnHost(int item) const {
    return std::any_of(c_.updates.begin(), c_.updates.end(),
                       [&](const CycleUpdate& update) {
                         return update.weight == item && IsOnHost(update);
                       });
  }

  // Gaps of the content in which the item is offloaded, the first one behind
  // the writer first.
  std::vector<int> AwayFrom(int copy) const {
    std::vector<int> away;
    for (size_t g = 0; g < c_.gaps.size(); ++g) {
      if (c_.gaps[g].copy == copy && plan_.away[g]) {
        away.push_back(static_cast<int>(g));
      }
    }
    const auto is_later = [&](int g) {
      return c_.gaps[g].after < c_.copies[copy].writer;
    };
    std::stable_partition(away.begin(), away.end(),
                          [&](int g) { return !is_later(g); });
    return away;
  }

  void AddCopy(int copy) {
    const std::vector<int> away = AwayFrom(copy);
    if (away.empty()) return;
    const auto [item, writer] = c_.copies[copy];
    size_t freed = 0;
    if (!IsUpdatedOnHost(item)) {
      offloads_[writer].push_back(Move(Do::kOffload, item));
      freed = 1;
    }
    for (; freed < away.size(); ++freed) {
      frees_[c_.gaps[away[freed]].after].push_back(Move(Do::kFree, item));
    }
  }

  const Cycle& c_;
  const CyclePlan& plan_;
  std::vector<std::vector<int>> returns_;  // by op, before it: gaps
  std::vector<ChainActions> frees_;        // by op, behind it
  std::vector<ChainActions> offloads_;
  std::vector<ChainActions> updates_;
};

}  // namespace

ChainActions WriteCycle(int stages, const ChainActions& compute,
                        const Cycle& cycle, const CyclePlan& plan) {
  return Writer(cycle, plan).Write(stages, compute);
}

}  // namespace ebbtide
