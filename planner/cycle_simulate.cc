#include "planner/cycle_simulate.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ebbtide {
namespace {

// Effect of an op on an item.
struct Touch {
  int item = 0;
  bool makes = false;
  bool drops = false;
  int copy = -1;  // copy of its output
  int gap = -1;   // gap that begins
  int update = -1;
};

struct Leaving {
  Time end = 0;
  Bytes bytes{};
  friend bool operator==(const Leaving&, const Leaving&) = default;
};

// State of the lanes at the end of a step, in time from then on.
struct Lanes {
  Time d2h = 0;
  Time h2d = 0;
  Time host = 0;
  std::vector<Time> here;     // by item: it may be read
  std::vector<Time> on_host;  // by item: the host's content may be read
  std::vector<Leaving> leaving;
  friend bool operator==(const Lanes&, const Lanes&) = default;
};

class Simulator {
 public:
  // Decides when items come back, if `places`.
  Simulator(const Cycle& cycle, const CyclePlan& plan, Bytes budget,
            bool places)
      : c_(cycle),
        plan_(plan),
        budget_(budget),
        places_(places),
        touches_(cycle.ops.size()),
        returns_(ReturnsByOp(cycle, plan)),
        held_(cycle.ops.size()),
        copied_(cycle.copies.size()),
        absent_(cycle.items.size()),
        away_(plan.away),
        placed_(plan.back) {
    lanes_.here.resize(cycle.items.size());
    lanes_.on_host.resize(cycle.items.size());
    AddTouches();
    AddOrder();
    if (places_) static_ = LeastLive(cycle, plan);
    for (size_t i = 0; i < c_.items.size(); ++i) {
      if (c_.items[i].lasts && !absent_[i]) resident_ += c_.items[i].bytes;
    }
    for (size_t g = 0; g < c_.gaps.size(); ++g) {
      away_[g] = plan.away[g] && IsAwayAtStart(static_cast<int>(g));
      if (away_[g]) resident_ -= ItemOf(g).bytes;
    }
  }

  // One step; false where it does not fit.
  bool Step() {
    clock_ = 0;
    for (int k = 0; k < c_.Ops(); ++k) {
      const bool back = places_ ? PlaceAt(k) : ReturnAt(k);
      if (!back || !Run(k)) return false;
    }
    Rebase();
    return true;
  }

  Time clock() const { return clock_; }
  Bytes peak() const { return peak_; }
  const Lanes& lanes() const { return lanes_; }
  const std::vector<int>& placed() const { return placed_; }

 private:
  const CycleItem& ItemOf(size_t gap) const {
    return c_.items[c_.gaps[gap].item];
  }

  // Where nothing is decided yet it comes back in the step that needs it.
  bool IsAwayAtStart(int g) const {
    const CycleGap& gap = c_.gaps[g];
    return gap.before >= c_.Ops() && (places_ || plan_.back[g] >= c_.Ops());
  }

  void AddTouches() {
    for (size_t i = 0; i < c_.items.size(); ++i) {
      const CycleItem& item = c_.items[i];
      for (const CycleUse& use : item.uses) {
        Touch touch{static_cast<int>(i)};
        touch.makes = !item.lasts && &use == &item.uses.front();
        touch.drops = !item.lasts && &use == &item.uses.back();
        touches_[use.op].push_back(touch);
      }
    }
    for (size_t g = 0; g < c_.gaps.size(); ++g) {
      const CycleGap& gap = c_.gaps[g];
      Find(gap.after, gap.item)->gap = static_cast<int>(g);
      if (plan_.away[g]) copied_[gap.copy] = true;
    }
    for (size_t n = 0; n < c_.copies.size(); ++n) {
      const CycleCopy& copy = c_.copies[n];
      if (copied_[n]) Find(copy.writer, copy.item)->copy = static_cast<int>(n);
    }
    for (size_t u = 0; u < c_.updates.size(); ++u) {
      if (plan_.on_host[u]) MoveUpdate(static_cast<int>(u));
    }
  }

  // The state is never here, the weight's content comes from the host.
  void MoveUpdate(int u) {
    const CycleUpdate& update = c_.updates[u];
    Touch* const weight = Find(update.op, update.weight);
    weight->copy = -1;
    weight->update = u;
    if (update.grad >= 0) Find(update.op, update.grad)->update = u;
    if (update.state < 0) return;
    absent_[update.state] = true;
    std::erase_if(touches_[update.op], [&](const Touch& touch) {
      return touch.item == update.state;
    });
  }

  Touch* Find(int op, int item) {
    return &*std::find_if(touches_[op].begin(), touches_[op].end(),
                          [item](const Touch& t) { return t.item == item; });
  }

  // Gaps in the order of need.
  void AddOrder() {
    for (size_t g = 0; g < c_.gaps.size(); ++g) {
      if (plan_.away[g]) order_.push_back(static_cast<int>(g));
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [this](int a, int b) { return Wait(a, 0) < Wait(b, 0); });
  }

  int Wait(int g, int k) const { return WaitFrom(c_, g, k); }

  void Drain() {
    std::erase_if(lanes_.leaving, [this](const Leaving& leaving) {
      if (leaving.end > clock_) return false;
      resident_ -= leaving.bytes;
      return true;
    });
  }

  bool Occupy(Bytes extra) {
    Drain();
    while (resident_ + extra > budget_) {
      if (lanes_.leaving.empty()) return false;
      Time next = lanes_.leaving.front().end;
      for (const Leaving& leaving : lanes_.leaving) {
        next = std::min(next, leaving.end);
      }
      clock_ = next;
      Drain();
    }
    peak_ = std::max(peak_, resident_ + extra);
    return true;
  }

  Time CopyTime(int item, double bandwidth) const {
    return static_cast<double>(Count(c_.items[item].bytes)) / bandwidth;
  }

  bool Return(int g, int k) {
    const int item = c_.gaps[g].item;
    if (!Occupy(c_.ops[k].before + c_.items[item].bytes)) return false;
    resident_ += c_.items[item].bytes;
    const Time start =
        std::max(std::max(clock_, lanes_.h2d), lanes_.on_host[item]);
    lanes_.h2d = start + CopyTime(item, c_.h2d);
    lanes_.here[item] = lanes_.h2d;
    away_[g] = false;
    return true;
  }

  bool ReturnAt(int k) {
    return std::all_of(returns_[k].begin(), returns_[k].end(),
                       [&](int g) { return Return(g, k); });
  }

  bool PlaceAt(int k) {
    const auto first = std::find_if(order_.begin(), order_.end(), [&](int g) {
      return c_.gaps[g].before % c_.Ops() >= k;
    });
    const auto from = static_cast<size_t>(first - order_.begin());
    for (size_t n = 0; n < order_.size(); ++n) {
      const int g = order_[(from + n) % order_.size()];
      if (!away_[g]) continue;
      if (Wait(g, k) > 0 && !HasRoom(g, k)) break;
      if (!Return(g, k)) return false;
      for (int j = 0; j < Wait(g, k); ++j) {
        held_[(k + j) % c_.Ops()] += ItemOf(g).bytes;
      }
      placed_[g] = c_.gaps[g].before - Wait(g, k);
    }
    return true;
  }

  // For the item from op k on, without a wait now.
  bool HasRoom(int g, int k) {
    const Bytes bytes = ItemOf(g).bytes;
    Drain();
    const Bytes now = resident_ + bytes;
    if (now + std::max(c_.ops[k].before, c_.ops[k].bytes + Made(k)) > budget_) {
      return false;
    }
    for (int j = 0; j < Wait(g, k); ++j) {
      const int at = (k + j) % c_.Ops();
      if (static_[at] + held_[at] + bytes > budget_) return false;
    }
    return true;
  }

  Bytes Made(int k) const {
    Bytes made{};
    for (const Touch& touch : touches_[k]) {
      if (touch.makes) made += c_.items[touch.item].bytes;
    }
    return made;
  }

  bool Run(int k) {
    for (const Touch& touch : touches_[k]) {
      clock_ = std::max(clock_, lanes_.here[touch.item]);
    }
    const Bytes made = Made(k);
    if (!Occupy(c_.ops[k].bytes + made)) return false;
    resident_ += made;
    clock_ += c_.ops[k].time;
    for (size_t u = 0; u < c_.updates.size(); ++u) {
      if (c_.updates[u].op == k && !plan_.on_host[u]) {
        clock_ += c_.updates[u].device;
      }
    }
    held_[k] = Bytes{};
    // A gradient is on its way before the weight's update is asked for.
    for (const Touch& touch : touches_[k]) {
      if (touch.update >= 0 && touch.drops) CopyOut(touch.item);
    }
    for (const Touch& touch : touches_[k]) Leave(touch);
    return true;
  }

  Time CopyOut(int item) {
    lanes_.d2h = std::max(clock_, lanes_.d2h) + CopyTime(item, c_.d2h);
    lanes_.on_host[item] = lanes_.d2h;
    return lanes_.d2h;
  }

  void Leave(const Touch& touch) {
    const Bytes bytes = c_.items[touch.item].bytes;
    if (touch.update >= 0 && !touch.drops) UpdateOnHost(touch);
    if (touch.copy >= 0) CopyOut(touch.item);
    const bool away = touch.gap >= 0 && plan_.away[touch.gap];
    if (away) away_[touch.gap] = true;
    if (!away && !touch.drops) return;
    const bool copied = away ? touch.update < 0 : touch.update >= 0;
    if (copied && lanes_.on_host[touch.item] > clock_) {
      lanes_.leaving.push_back({lanes_.on_host[touch.item], bytes});
    } else {
      resident_ -= bytes;
    }
  }

  void UpdateOnHost(const Touch& touch) {
    const CycleUpdate& update = c_.updates[touch.update];
    Time ready = std::max(clock_, lanes_.host);
    if (update.grad >= 0) ready = std::max(ready, lanes_.on_host[update.grad]);
    lanes_.host = ready + update.host;
    lanes_.on_host[touch.item] = lanes_.host;
  }

  void Rebase() {
    const auto rebase = [this](Time* time) {
      *time = std::max(0.0, *time - clock_);
    };
    Drain();
    for (Time* time : {&lanes_.d2h, &lanes_.h2d, &lanes_.host}) rebase(time);
    for (Time& time : lanes_.here) rebase(&time);
    for (Time& time : lanes_.on_host) rebase(&time);
    for (Leaving& leaving : lanes_.leaving) rebase(&leaving.end);
  }

  const Cycle& c_;
  const CyclePlan& plan_;
  const Bytes budget_;
  const bool places_;
  std::vector<std::vector<Touch>> touches_;  // by op
  std::vector<std::vector<int>> returns_;    // by op: gaps
  std::vector<int> order_;                   // gaps, in the order of need
  std::vector<Bytes> static_;                // by op
  std::vector<Bytes> held_;   // by op: of items that are back early
  std::vector<char> copied_;  // by copy
  std::vector<char> absent_;  // by item: on the host for good
  std::vector<char> away_;    // by gap, now
  std::vector<int> placed_;   // by gap
  Lanes lanes_;
  Time clock_ = 0;
  Bytes resident_{};
  Bytes peak_{};
};

// Bytes that are copied in a step, and time of the host's updates.
struct Loads {
  Bytes out{};
  Bytes in{};
  Bytes host{};  // its room
  Time updates = 0;
};

Loads LoadsOf(const Cycle& c, const CyclePlan& plan) {
  Loads loads;
  std::vector<char> copied(c.copies.size());
  std::vector<char> moves(c.items.size());
  for (size_t g = 0; g < c.gaps.size(); ++g) {
    if (!plan.away[g]) continue;
    loads.in += c.items[c.gaps[g].item].bytes;
    copied[c.gaps[g].copy] = true;
    moves[c.gaps[g].item] = true;
  }
  for (size_t u = 0; u < c.updates.size(); ++u) {
    if (!plan.on_host[u]) continue;
    const CycleUpdate& update = c.updates[u];
    copied[c.gaps[update.gap].copy] = false;
    loads.updates += update.host;
    if (update.state >= 0) moves[update.state] = true;
    if (update.grad < 0) continue;
    moves[update.grad] = true;
    loads.out += c.items[update.grad].bytes;
  }
  for (size_t n = 0; n < c.copies.size(); ++n) {
    if (copied[n]) loads.out += c.items[c.copies[n].item].bytes;
  }
  for (size_t i = 0; i < c.items.size(); ++i) {
    if (moves[i]) loads.host += c.items[i].bytes;
  }
  return loads;
}

}  // namespace

CycleSimulation SimulateCycle(const Cycle& cycle, const CyclePlan& plan,
                              Bytes budget) {
  CycleSimulation result;
  const Loads loads = LoadsOf(cycle, plan);
  if (cycle.host >= Bytes{} && loads.host > cycle.host) return result;
  Simulator simulator(cycle, plan, budget, /*places=*/false);
  Lanes before;
  for (int step = 0; step < kCycleSteps; ++step) {
    if (!simulator.Step()) return result;
    result.time = std::max(result.time, simulator.clock());
    if (step > 0 && simulator.lanes() == before) break;
    before = simulator.lanes();
  }
  const auto busy = [](Bytes bytes, double bandwidth) {
    return bytes > Bytes{} ? static_cast<double>(Count(bytes)) / bandwidth : 0;
  };
  result.time = std::max({result.time, busy(loads.out, cycle.d2h),
                          busy(loads.in, cycle.h2d), loads.updates});
  result.peak = simulator.peak();
  result.fits = true;
  return result;
}

bool PlaceReturns(const Cycle& cycle, Bytes budget, CyclePlan* plan) {
  constexpr int kSteps = 4;  // until nearly all plans are the same in each
  Simulator simulator(cycle, *plan, budget, /*places=*/true);
  for (int step = 0; step < kSteps; ++step) {
    if (!simulator.Step()) return false;
  }
  plan->back = simulator.placed();
  return true;
}

}  // namespace ebbtide
