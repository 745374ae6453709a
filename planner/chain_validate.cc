#include "planner/chain_validate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/chain_validate_stay.h"
#include "planner/cycle_validate.h"

namespace ebbtide {
namespace {

using Do = ChainAction::Do;
using Item = ChainAction::Item;

template <class... Args>
absl::Status Broken(size_t position, const Args&... args) {
  return absl::FailedPreconditionError(
      absl::StrCat("actions[", position, "]: ", args...));
}

bool Computes(const ChainAction& a) {
  return a.what == Do::kForward || a.what == Do::kLoss ||
         a.what == Do::kBackward;
}

class Checker {
 public:
  Checker(const Chain& chain, absl::Span<const ChainAction> actions,
          Bytes budget)
      : c_(chain), actions_(actions), budget_(budget), stages_(Stages(chain)) {}

  absl::StatusOr<ChainVerdict> Run() {
    if (auto s = CheckRanges(); !s.ok()) return s;
    if (auto s = CheckBackwardOrder(); !s.ok()) return s;
    if (auto s = Follow(); !s.ok()) return s;
    for (int k = 0; k < Size(); ++k) {
      if (auto s = CheckReads(k); !s.ok()) return s;
      if (auto s = CheckUse(k); !s.ok()) return s;
      if (auto s = CheckFree(k); !s.ok()) return s;
    }
    return CheckTimes();
  }

 private:
  int Size() const { return static_cast<int>(actions_.size()); }

  absl::Status CheckRanges() const {
    for (int k = 0; k < Size(); ++k) {
      const ChainAction& a = actions_[k];
      if (a.what == Do::kUpdate || a.item > Item::kXb) {
        return Broken(k, "a chain without weights has x and xb to move");
      }
      const bool stage = a.what == Do::kForward || a.what == Do::kBackward;
      // x[0] may move.
      const bool value =
          !Computes(a) && (a.what == Do::kFree || a.item == Item::kXb);
      const int low = value ? 1 : 0;
      const int high = stage ? stages_ - 1 : a.what == Do::kLoss ? 0 : stages_;
      if (a.stage < low || a.stage > high) {
        return Broken(k, "expected a stage from ", low, " to ", high, ", got ",
                      a.stage);
      }
      if (a.what == Do::kForward && (a.save < 0 || a.save > Ways(a.stage))) {
        return Broken(k, "expected save from 0 to ", Ways(a.stage), ", got ",
                      a.save);
      }
    }
    return absl::OkStatus();
  }

  int Ways(int stage) const {
    int ways = 1;
    for (const ChainOption& o : c_.options) ways += o.stage == stage ? 1 : 0;
    return ways;
  }

  // Cost of running `stage` with `save` > 0.
  ChainOption Way(int stage, int save) const {
    int left = save - 1;
    for (const ChainOption& o : c_.options) {
      if (o.stage == stage && left > 0 && --left == 0) return o;
    }
    return {stage,        c_.fw[stage], c_.bw[stage], c_.xb[stage + 1],
            c_.ft[stage], c_.bt[stage]};
  }

  // The loss once, then every stage's backward once, from the last down.
  absl::Status CheckBackwardOrder() const {
    int next = stages_;  // the loss counts as stage L
    for (int k = 0; k < Size(); ++k) {
      const ChainAction& a = actions_[k];
      if (a.what != Do::kLoss && a.what != Do::kBackward) continue;
      const int stage = a.what == Do::kLoss ? stages_ : a.stage;
      if (stage != next) {
        return Broken(k, "expected backward of stage ", next, " next (stage ",
                      stages_, " is the loss), got ", stage);
      }
      --next;
    }
    if (next < 0) return absl::OkStatus();
    return Broken(Size(), "backward of stage ", next, " is missing");
  }

  // Builds the stays of all items in one pass over the actions.
  absl::Status Follow() {
    std::vector<int> open(2 * stages_ + 2, -1);     // stay on the device
    std::vector<int> on_host(2 * stages_ + 2, -1);  // stay that went there
    stays_.push_back({.item = 0, .first = -1, .last = Size()});
    stays_.back().bytes = c_.x[0];
    open[0] = 0;
    for (int k = 0; k < Size(); ++k) {
      const ChainAction& a = actions_[k];
      ExtendStays(k, on_host);
      if (a.what == Do::kLoss || a.what == Do::kBackward) continue;
      if (a.what == Do::kForward) {
        const int plain = 2 * (a.stage + 1);
        for (int item : {plain, plain + 1}) {
          if (open[item] < 0 && on_host[item] < 0) continue;
          return Broken(k, NameOf(item), " is there already");
        }
        const int item = a.save == 0 ? plain : plain + 1;
        open[item] = static_cast<int>(stays_.size());
        stays_.push_back({.item = item, .first = k, .last = Size()});
        stays_.back().save = a.save;
        stays_.back().bytes =
            a.save == 0 ? c_.x[a.stage + 1] : Way(a.stage, a.save).xb;
        continue;
      }
      const int item = ItemOf(a);
      if (a.what == Do::kRestore) {
        if (on_host[item] < 0) {
          return Broken(k, NameOf(item), " is not on the host");
        }
        const ChainStay& away = stays_[on_host[item]];
        ChainStay back{.item = item, .first = k, .last = Size()};
        back.restores = on_host[item];
        back.save = away.save;
        back.bytes = away.bytes;
        stays_[on_host[item]].back = static_cast<int>(stays_.size());
        on_host[item] = -1;
        open[item] = static_cast<int>(stays_.size());
        stays_.push_back(back);
        continue;
      }
      if (open[item] < 0) {
        return Broken(k, NameOf(item), " is not on the device");
      }
      ChainStay& stay = stays_[open[item]];
      stay.last = k;
      if (a.what == Do::kOffload) {
        stay.offload = k;
        on_host[item] = open[item];
      }
      open[item] = -1;
    }
    return CheckLeft(open, on_host);
  }

  // An offloaded value stays for its next reader.
  void ExtendStays(int k, const std::vector<int>& on_host) {
    const ChainAction& a = actions_[k];
    if (!Computes(a)) return;
    const int input = a.what == Do::kLoss ? stages_ : a.stage;
    for (int item : {2 * input, 2 * input + 1}) {
      if (on_host[item] >= 0) stays_[on_host[item]].last = k;
    }
    const int saved = 2 * (a.stage + 1) + 1;
    if (a.what == Do::kBackward && on_host[saved] >= 0) {
      stays_[on_host[saved]].last = k;
    }
  }

  // Only x[0] may be there at the end.
  absl::Status CheckLeft(const std::vector<int>& open,
                         const std::vector<int>& on_host) const {
    for (size_t item = 1; item < open.size(); ++item) {
      if (open[item] < 0 && on_host[item] < 0) continue;
      return Broken(Size(), NameOf(item), " is left over");
    }
    return absl::OkStatus();
  }

  int StayAt(int item, int k) const {
    for (size_t s = 0; s < stays_.size(); ++s) {
      const ChainStay& stay = stays_[s];
      if (stay.item == item && stay.first < k && k <= stay.last) return s;
    }
    return -1;
  }

  // Stays that action k reads; -1 for one that is not there.
  std::vector<int> Reads(int k) const {
    const ChainAction& a = actions_[k];
    if (!Computes(a)) return {};
    const int input = a.what == Do::kLoss ? stages_ : a.stage;
    int stay = StayAt(2 * input, k);
    if (stay < 0) stay = StayAt(2 * input + 1, k);
    std::vector<int> reads = {stay};
    if (a.what == Do::kBackward) {
      reads.push_back(StayAt(2 * (a.stage + 1) + 1, k));
    }
    return reads;
  }

  absl::Status CheckReads(int k) const {
    const std::vector<int> reads = Reads(k);
    for (size_t r = 0; r < reads.size(); ++r) {
      if (reads[r] >= 0) continue;
      return Broken(k, r == 0 ? "the input" : "the saved set",
                    " is not on the device");
    }
    return absl::OkStatus();
  }

  // The next compute action reads the output of a forward.
  absl::Status CheckUse(int k) const {
    if (actions_[k].what != Do::kForward) return absl::OkStatus();
    int next = k + 1;
    while (next < Size() && !Computes(actions_[next])) ++next;
    if (next < Size()) {
      for (int stay : Reads(next)) {
        if (stay >= 0 && stays_[stay].first == k) return absl::OkStatus();
      }
    }
    return Broken(k, "the next compute action does not read what this makes");
  }

  // A free comes directly after the last reader, frees of one place in order.
  absl::Status CheckFree(int k) const {
    if (actions_[k].what != Do::kFree) return absl::OkStatus();
    const int item = ItemOf(actions_[k]);
    int before = k - 1;
    if (before >= 0 && actions_[before].what == Do::kFree &&
        ItemOf(actions_[before]) >= item) {
      return Broken(k, "frees of one place go up in stage, x before xb");
    }
    while (before >= 0 && actions_[before].what == Do::kFree) --before;
    if (before >= 0 && Computes(actions_[before])) {
      for (int stay : Reads(before)) {
        if (stay >= 0 && stays_[stay].item == item) return absl::OkStatus();
      }
    }
    return Broken(k, NameOf(item), " is not freed directly after its last use");
  }

  // Bytes on the device at `time` as action k starts; the gradient included.
  Bytes Resident(int k, Time time) const {
    Bytes sum{};
    for (const ChainStay& stay : stays_) {
      if (stay.first >= k) continue;
      const bool leaves = stay.offload >= 0 && stay.gone > time;
      const bool there = stay.last >= k || leaves;
      if (there) sum += stay.bytes;
    }
    for (int j = k - 1; j >= 0; --j) {
      if (actions_[j].what == Do::kLoss) return sum + c_.x[stages_];
      if (actions_[j].what == Do::kBackward) {
        return sum + c_.x[actions_[j].stage];
      }
    }
    return sum;
  }

  struct Cost {
    Bytes bytes{};
    Time time = 0;
  };

  Cost CostOf(int k) const {
    const ChainAction& a = actions_[k];
    if (a.what == Do::kForward) {
      const ChainOption way = Way(a.stage, std::max(1, a.save));
      return {(a.save == 0 ? c_.x[a.stage + 1] : way.xb) + way.ft, way.fw};
    }
    if (a.what == Do::kLoss) {
      return {c_.x[stages_] + c_.bt[stages_], c_.bw[stages_]};
    }
    if (a.what == Do::kBackward) {
      const ChainStay& saved = stays_[StayAt(2 * (a.stage + 1) + 1, k)];
      const ChainOption way = Way(a.stage, saved.save);
      return {c_.x[a.stage] + way.bt, way.bw};
    }
    return {stays_[StayAt(ItemOf(a), k + 1)].bytes, 0};  // a restore
  }

  // Moves `time` on until the bytes fit, and notes them.
  absl::Status Fit(int k, Bytes extra, Time* time) {
    while (true) {
      const Bytes live = Resident(k, *time) + extra;
      if (live <= budget_) {
        peak_ = std::max(peak_, live);
        return absl::OkStatus();
      }
      Time next = kNever;
      for (const ChainStay& stay : stays_) {
        if (stay.offload >= 0 && stay.last < k && stay.gone > *time) {
          next = std::min(next, stay.gone);
        }
      }
      if (next == kNever) {
        return Broken(k, "needs ", Count(live), ", the budget is ",
                      Count(budget_));
      }
      *time = next;
    }
  }

  absl::StatusOr<ChainVerdict> CheckTimes() {
    Time clock = 0;
    for (int k = 0; k < Size(); ++k) {
      const ChainAction& a = actions_[k];
      if (a.what == Do::kFree) {
        if (stays_[StayAt(ItemOf(a), k)].ready > clock) {
          return Broken(k, NameOf(ItemOf(a)), " is still being restored");
        }
        continue;
      }
      if (a.what == Do::kOffload) {
        if (auto s = StartOffload(k, clock); !s.ok()) return s;
        continue;
      }
      for (int stay : Reads(k)) clock = std::max(clock, stays_[stay].ready);
      const Cost cost = CostOf(k);
      if (auto s = Fit(k, cost.bytes, &clock); !s.ok()) return s;
      if (a.what == Do::kRestore) {
        if (auto s = StartRestore(k, clock); !s.ok()) return s;
      }
      clock += cost.time;
    }
    return ChainVerdict{.time = clock, .peak = peak_};
  }

  absl::Status StartOffload(int k, Time clock) {
    if (c_.d2h <= 0) return Broken(k, "the chain has no D2H lane");
    ChainStay& stay = stays_[StayAt(ItemOf(actions_[k]), k)];
    const Time start = std::max({clock, d2h_end_, stay.ready});
    d2h_end_ = start + static_cast<double>(Count(stay.bytes)) / c_.d2h;
    stay.gone = d2h_end_;
    Bytes host{};
    for (size_t s = 0; s < stays_.size(); ++s) {
      if (stays_[s].offload < 0 || stays_[s].offload > k) continue;
      const ChainStay& back = stays_[stays_[s].back];
      if (back.first > k || back.ready > clock) host += stays_[s].bytes;
    }
    if (c_.host < Bytes{} || host <= c_.host) return absl::OkStatus();
    return Broken(k, "the host would hold ", Count(host), ", its room is ",
                  Count(c_.host));
  }

  absl::Status StartRestore(int k, Time clock) {
    if (c_.h2d <= 0) return Broken(k, "the chain has no H2D lane");
    ChainStay& back = stays_[StayAt(ItemOf(actions_[k]), k + 1)];
    const Time start = std::max({clock, h2d_end_, stays_[back.restores].gone});
    h2d_end_ = start + static_cast<double>(Count(back.bytes)) / c_.h2d;
    back.ready = h2d_end_;
    return absl::OkStatus();
  }

  const Chain& c_;
  const absl::Span<const ChainAction> actions_;
  const Bytes budget_;
  const int stages_;
  std::vector<ChainStay> stays_;
  Time d2h_end_ = 0;
  Time h2d_end_ = 0;
  Bytes peak_{};
};

}  // namespace

absl::StatusOr<ChainVerdict> ValidateChain(
    const Chain& chain, absl::Span<const ChainAction> actions, Bytes budget) {
  return Checker(chain, actions, budget).Run();
}

absl::Status ValidateChainPlan(const Chain& chain, const ChainPlan& plan) {
  if (!plan.feasible) {
    return absl::FailedPreconditionError("the plan says it is not feasible");
  }
  const auto validate = chain.weights.empty() ? ValidateChain : ValidateCycle;
  absl::StatusOr<ChainVerdict> verdict =
      validate(chain, plan.actions, plan.budget);
  if (!verdict.ok()) return verdict.status();
  if (verdict->time != plan.time) {
    return absl::FailedPreconditionError(absl::StrCat(
        "time: expected ", verdict->time, ", the plan says ", plan.time));
  }
  if (verdict->peak == plan.peak) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("peak: expected ", Count(verdict->peak), ", the plan says ",
                   Count(plan.peak)));
}

}  // namespace ebbtide
