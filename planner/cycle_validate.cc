#include "planner/cycle_validate.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "planner/cycle_validate_rules.h"

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

constexpr int kSteps = 50;
constexpr Time kNever = std::numeric_limits<Time>::infinity();

// x[i], xb[i], a weight, its gradient or its state.
struct Thing {
  Bytes bytes{};
  bool here = false;
  bool leaves = false;  // as soon as it is copied and read no more
  bool host = false;    // the host has the content of the last write
  Time ready = 0;       // here
  Time copied = 0;      // there
  int way = 0;          // for a saved set: save - 1
  friend bool operator==(const Thing&, const Thing&) = default;
};

// Bytes of a content that was asked back before it had left.
struct Rest {
  Time end = 0;
  Bytes bytes{};
  friend bool operator==(const Rest&, const Rest&) = default;
};

struct Lanes {
  std::vector<Thing> things;
  std::vector<Rest> rests;
  Time d2h = 0;
  Time h2d = 0;
  Time host = 0;
  friend bool operator==(const Lanes&, const Lanes&) = default;
};

class Runner {
 public:
  Runner(const Chain& chain, absl::Span<const ChainAction> actions,
         Bytes budget)
      : c_(chain),
        actions_(actions),
        budget_(budget),
        rules_(chain, actions),
        stages_(Stages(chain)),
        size_(static_cast<int>(actions.size())) {}

  absl::StatusOr<ChainVerdict> Run() {
    if (auto s = rules_.Check(); !s.ok()) return s;
    MakeThings();
    ChainVerdict verdict;
    Lanes before;
    for (int step = 0; step < kSteps; ++step) {
      now_ = 0;
      for (int k = 0; k < size_; ++k) {
        if (auto s = Act(k); !s.ok()) return s;
      }
      verdict.time = std::max(verdict.time, now_);
      if (auto s = EndStep(); !s.ok()) return s;
      if (step > 0 && lanes_ == before) break;
      before = lanes_;
    }
    verdict.time = std::max(verdict.time, rules_.LeastTime());
    verdict.peak = peak_;
    return verdict;
  }

 private:
  int Weights() const { return static_cast<int>(c_.weights.size()); }

  int IdOf(Item item, int index) const {
    if (!CycleRules::IsWeight(item))
      return 2 * index + (item == Item::kXb ? 1 : 0);
    const int kind = static_cast<int>(item) - static_cast<int>(Item::kWeight);
    return 2 * (stages_ + 1) + 3 * index + kind;
  }
  Thing& At(Item item, int index) { return lanes_.things[IdOf(item, index)]; }

  void MakeThings() {
    lanes_.things.resize(2 * (stages_ + 1) + 3 * c_.weights.size());
    At(Item::kX, 0) = {.bytes = c_.x[0], .here = true};
    for (int w = 0; w < Weights(); ++w) {
      At(Item::kWeight, w).bytes = c_.weights[w].bytes;
      At(Item::kGrad, w).bytes = c_.weights[w].grad;
      At(Item::kState, w).bytes = c_.weights[w].state;
      StartAsBefore(Item::kWeight, w);
      StartAsBefore(Item::kState, w);
    }
  }

  // Where the step before has left it, its copies ended.
  void StartAsBefore(Item item, int w) {
    Thing& thing = At(item, w);
    thing.here = true;
    bool placed = false;
    if (rules_.IsUpdatedOnHost(w)) {
      thing.host = true;
      if (item == Item::kState) {
        thing.here = false;
        return;
      }
    }
    for (int k = size_ - 1; k >= 0; --k) {
      const ChainAction& a = actions_[k];
      if (rules_.Writes(a, w)) return;
      if (CycleRules::Computes(a) || a.item != item || a.stage != w) continue;
      if (!placed) thing.here = a.what == Do::kRestore;
      placed = true;
      if (a.what != Do::kOffload) continue;
      thing.host = true;
      if (!thing.here && rules_.IsReadFrom(k + 1, item, w)) {
        // It has not left before the end of the step, or is read behind it.
        thing.here = thing.leaves = rules_.IsReadFrom(0, item, w);
      }
      return;
    }
  }

  Bytes Live() const {
    Bytes sum = gradient_ < 0 ? Bytes{} : c_.x[gradient_];
    for (const Thing& thing : lanes_.things) {
      if (thing.here) sum += thing.bytes;
    }
    for (const Rest& rest : lanes_.rests) sum += rest.bytes;
    return sum;
  }

  template <class Visit>
  void EachThing(const Visit& visit) {
    for (int i = 0; i <= stages_; ++i) {
      visit(Item::kX, i);
      visit(Item::kXb, i);
    }
    for (int w = 0; w < Weights(); ++w) {
      visit(Item::kWeight, w);
      visit(Item::kGrad, w);
      visit(Item::kState, w);
    }
  }

  // Releases what may be released before action k; returns the next time of a
  // release.
  Time LetGo(int k) {
    Time next = kNever;
    std::erase_if(lanes_.rests,
                  [this](const Rest& rest) { return rest.end <= now_; });
    for (const Rest& rest : lanes_.rests) next = std::min(next, rest.end);
    EachThing([&](Item item, int index) {
      Thing& thing = At(item, index);
      if (!thing.leaves || rules_.IsReadFrom(k, item, index)) return;
      if (thing.copied <= now_) {
        thing.here = thing.leaves = false;
      } else {
        next = std::min(next, thing.copied);
      }
    });
    return next;
  }

  absl::Status Fit(int k, Bytes extra) {
    while (true) {
      const Time next = LetGo(k);
      const Bytes live = Live() + extra;
      if (live <= budget_) {
        peak_ = std::max(peak_, live);
        return absl::OkStatus();
      }
      if (next == kNever) {
        return BrokenRule(k, "needs ", Count(live), ", the budget is ",
                          Count(budget_));
      }
      now_ = next;
    }
  }

  absl::Status Act(int k) {
    const ChainAction& a = actions_[k];
    if (CycleRules::Computes(a)) return Compute(k);
    if (a.what == Do::kUpdate) return Update(k);
    Thing& thing = At(a.item, a.stage);
    if (a.what == Do::kRestore) return Restore(k, &thing);
    if (!thing.here || thing.leaves) {
      return BrokenRule(k, CycleRules::NameOf(a), " is not on the device");
    }
    if (a.what == Do::kOffload) return Offload(k, &thing);
    if (CycleRules::IsWeight(a.item) && a.item != Item::kGrad &&
        (!thing.host || thing.copied > now_)) {
      return BrokenRule(k, CycleRules::NameOf(a), " is not on the host");
    }
    if (a.item == Item::kGrad && rules_.IsReadFrom(k + 1, a.item, a.stage)) {
      return BrokenRule(k, CycleRules::NameOf(a), " is read again");
    }
    thing.here = false;
    return absl::OkStatus();
  }

  absl::Status Offload(int k, Thing* thing) {
    if (c_.d2h <= 0) return BrokenRule(k, "the chain has no D2H lane");
    const Time start = std::max(now_, lanes_.d2h);
    lanes_.d2h = start + static_cast<double>(Count(thing->bytes)) / c_.d2h;
    thing->copied = lanes_.d2h;
    thing->host = thing->leaves = true;
    return absl::OkStatus();
  }

  absl::Status Restore(int k, Thing* thing) {
    const ChainAction& a = actions_[k];
    if (c_.h2d <= 0) return BrokenRule(k, "the chain has no H2D lane");
    LetGo(k);
    if (!thing->host)
      return BrokenRule(k, CycleRules::NameOf(a), " is not on the host");
    if (thing->here && !thing->leaves) {
      return BrokenRule(k, CycleRules::NameOf(a), " is on the device");
    }
    if (thing->here) lanes_.rests.push_back({thing->copied, thing->bytes});
    thing->here = thing->leaves = false;
    if (auto s = Fit(k, thing->bytes); !s.ok()) return s;
    const Time start = std::max({now_, lanes_.h2d, thing->copied});
    lanes_.h2d = start + static_cast<double>(Count(thing->bytes)) / c_.h2d;
    thing->here = true;
    thing->ready = lanes_.h2d;
    return absl::OkStatus();
  }

  absl::Status Update(int k) {
    const int w = actions_[k].stage;
    const ChainWeight& weight = c_.weights[w];
    if (weight.host_update < 0) return BrokenRule(k, "the host cannot do it");
    const Thing& grad = At(Item::kGrad, w);
    if (weight.grad > Bytes{} && !grad.host) {
      return BrokenRule(k, "grad[", w, "] is not on its way to the host");
    }
    if (At(Item::kWeight, w).here) {
      return BrokenRule(k, "weight[", w, "] is on the device as it was before");
    }
    Time start = std::max(now_, lanes_.host);
    if (weight.grad > Bytes{}) start = std::max(start, grad.copied);
    lanes_.host = start + weight.host_update;
    At(Item::kWeight, w).copied = lanes_.host;
    return absl::OkStatus();
  }

  absl::Status Await(int k, Item item, int index) {
    const Thing& thing = At(item, index);
    if (!thing.here) {
      return BrokenRule(k, CycleRules::NameOf({.stage = index, .item = item}),
                        " is not on the device");
    }
    now_ = std::max(now_, thing.ready);
    return absl::OkStatus();
  }

  absl::Status AwaitWeights(int k, Bytes* made) {
    const ChainAction& a = actions_[k];
    for (int w = 0; w < Weights(); ++w) {
      for (Item item : {Item::kWeight, Item::kGrad, Item::kState}) {
        if (!rules_.Reads(a, item, w) || At(item, w).bytes == Bytes{}) continue;
        if (item == Item::kGrad && rules_.IsFirst(w, a)) {
          *made += c_.weights[w].grad;
          if (At(item, w).here) lanes_.rests.push_back(LeftOver(w));
          continue;
        }
        if (auto s = Await(k, item, w); !s.ok()) return s;
        const bool writes = item == Item::kGrad || rules_.Writes(a, w);
        if (writes && At(item, w).leaves) {
          return BrokenRule(k, CycleRules::NameOf({.stage = w, .item = item}),
                            " is written before it is brought back");
        }
      }
    }
    return absl::OkStatus();
  }

  // The gradient of the step before, still on its way.
  Rest LeftOver(int w) {
    Thing& grad = At(Item::kGrad, w);
    grad.here = grad.leaves = false;
    return {grad.copied, grad.bytes};
  }

  struct Cost {
    Bytes bytes{};
    Time time = 0;
  };

  absl::StatusOr<Cost> CostOf(int k) {
    const ChainAction& a = actions_[k];
    if (a.what == Do::kLoss) {
      return Cost{c_.x[stages_] + c_.bt[stages_], c_.bw[stages_]};
    }
    const std::vector<ChainOption> ways = SavingWays(c_, a.stage);
    if (a.what == Do::kForward) {
      const ChainOption& way = ways[std::max(0, a.save - 1)];
      return Cost{(a.save == 0 ? c_.x[a.stage + 1] : way.xb) + way.ft, way.fw};
    }
    if (auto s = Await(k, Item::kXb, a.stage + 1); !s.ok()) return s;
    const ChainOption& way = ways[At(Item::kXb, a.stage + 1).way];
    return Cost{c_.x[a.stage] + way.bt, way.bw};
  }

  absl::Status Compute(int k) {
    const ChainAction& a = actions_[k];
    const int input = a.what == Do::kLoss ? stages_ : a.stage;
    const Item form = At(Item::kX, input).here ? Item::kX : Item::kXb;
    if (auto s = Await(k, form, input); !s.ok()) return s;
    const auto cost = CostOf(k);
    if (!cost.ok()) return cost.status();
    Bytes made{};
    if (auto s = AwaitWeights(k, &made); !s.ok()) return s;
    if (auto s = Fit(k, cost->bytes + made); !s.ok()) return s;
    now_ += cost->time;
    if (a.what == Do::kForward) {
      Thing& output = At(a.save == 0 ? Item::kX : Item::kXb, a.stage + 1);
      output = {.here = true, .way = std::max(0, a.save - 1)};
      output.bytes = a.save == 0 ? c_.x[a.stage + 1]
                                 : SavingWays(c_, a.stage)[a.save - 1].xb;
    } else {
      gradient_ = input;
    }
    Write(a);
    return absl::OkStatus();
  }

  void Write(const ChainAction& a) {
    if (a.what != Do::kBackward) return;
    for (int w = 0; w < Weights(); ++w) {
      if (!rules_.Reads(a, Item::kGrad, w)) continue;
      Thing& grad = At(Item::kGrad, w);
      grad.here = true;
      grad.leaves = grad.host = false;
      if (!rules_.Writes(a, w)) continue;
      now_ += c_.weights[w].update;
      At(Item::kWeight, w).host = At(Item::kState, w).host = false;
    }
  }

  // Gradients are gone, or on their way, and times count from the next step on.
  absl::Status EndStep() {
    LetGo(0);
    gradient_ = -1;
    for (int w = 0; w < Weights(); ++w) {
      const Thing& grad = At(Item::kGrad, w);
      if (grad.here && !grad.leaves && grad.bytes > Bytes{}) {
        return BrokenRule(size_, "grad[", w, "] is left over");
      }
    }
    const auto rebase = [this](Time* time) {
      *time = std::max(0.0, *time - now_);
    };
    for (Time* time : {&lanes_.d2h, &lanes_.h2d, &lanes_.host}) rebase(time);
    for (Thing& thing : lanes_.things) {
      rebase(&thing.ready);
      rebase(&thing.copied);
    }
    for (Rest& rest : lanes_.rests) rebase(&rest.end);
    return absl::OkStatus();
  }

  const Chain& c_;
  const absl::Span<const ChainAction> actions_;
  const Bytes budget_;
  const CycleRules rules_;
  const int stages_;
  const int size_;
  Lanes lanes_;
  int gradient_ = -1;  // i where y[i] is there
  Time now_ = 0;
  Bytes peak_{};
};

}  // namespace

absl::StatusOr<ChainVerdict> ValidateCycle(
    const Chain& chain, absl::Span<const ChainAction> actions, Bytes budget) {
  return Runner(chain, actions, budget).Run();
}

}  // namespace ebbtide
