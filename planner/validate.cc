#include "planner/validate.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/validate_stay.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

template <class... Args>
absl::Status Broken(int position, const Args&... args) {
  return absl::FailedPreconditionError(
      absl::StrCat("actions[", position, "]: ", args...));
}

class Checker {
 public:
  Checker(const Profile& profile, absl::Span<const Action> actions,
          Bytes budget)
      : p_(profile),
        actions_(actions),
        budget_(budget),
        ops_(profile.ops.size()),
        stages_(profile.stages.size()),
        stays_(profile.values.size()) {}

  absl::StatusOr<Verdict> Run() {
    if (auto s = CheckIndices(); !s.ok()) return s;
    if (auto s = CheckOrder(); !s.ok()) return s;
    ListTouching();
    for (int v = 0; v < static_cast<int>(stays_.size()); ++v) {
      if (auto s = FollowValue(v); !s.ok()) return s;
      if (auto s = CheckLoss(v); !s.ok()) return s;
    }
    if (auto s = CheckReads(); !s.ok()) return s;
    return CheckTimes();
  }

 private:
  int Size() const { return actions_.size(); }

  absl::Status CheckIndices() const {
    for (int k = 0; k < Size(); ++k) {
      size_t limit = p_.values.size();
      if (actions_[k].what == Do::kForward ||
          actions_[k].what == Do::kRecompute) {
        limit = p_.ops.size();
      }
      if (actions_[k].what == Do::kBackward) limit = p_.stages.size();
      if (actions_[k].index >= 0 &&
          static_cast<size_t>(actions_[k].index) < limit) {
        continue;
      }
      return Broken(k, "expected an index below ", limit, ", got ",
                    actions_[k].index);
    }
    return absl::OkStatus();
  }

  // Forward ops and stages each once, in order; position_ says where.
  absl::Status CheckOrder() {
    for (int k = 0; k < Size(); ++k) {
      next_.push_back(static_cast<int>(position_.size()));
      const Action& a = actions_[k];
      if (a.what != Do::kForward && a.what != Do::kBackward) continue;
      const int instant = a.what == Do::kForward ? a.index : ops_ + a.index;
      if (instant != static_cast<int>(position_.size())) {
        return Broken(k, "expected instant ", position_.size(), " next, got ",
                      instant);
      }
      position_.push_back(k);
    }
    if (static_cast<int>(position_.size()) != ops_ + stages_) {
      return Broken(Size(), "expected ", ops_ + stages_,
                    " forward and backward actions, got ", position_.size());
    }
    for (int k = 0; k < Size(); ++k) {
      const Do what = actions_[k].what;
      if (what != Do::kRecompute && what != Do::kRestore) continue;
      if (what == Do::kRecompute && !p_.ops[actions_[k].index].replayable) {
        return Broken(k, "op ", actions_[k].index, " is not replayable");
      }
      if (StageAt(k) < 0 || StageAt(k) >= stages_) {
        return Broken(k, "a recompute or restore outside the backward pass");
      }
    }
    return absl::OkStatus();
  }

  // The stage that comes next at position k; negative in the forward pass.
  int StageAt(int k) const { return next_[k] - ops_; }

  // Positions of the actions that can begin or end a stay, by value.
  void ListTouching() {
    std::vector<std::vector<int>> made(ops_);
    for (size_t v = 0; v < p_.values.size(); ++v) {
      made[p_.values[v].op].push_back(static_cast<int>(v));
    }
    touching_.resize(p_.values.size());
    for (int k = 0; k < Size(); ++k) {
      const Action& a = actions_[k];
      if (a.what == Do::kBackward) continue;
      if (a.what == Do::kForward || a.what == Do::kRecompute) {
        for (int v : made[a.index]) touching_[v].push_back(k);
      } else {
        touching_[a.index].push_back(k);
      }
    }
  }

  // Builds the stays of value v from the actions that touch it.
  absl::Status FollowValue(int v) {
    const Value& value = p_.values[v];
    std::vector<Stay>& stays = stays_[v];
    bool on_host = false;
    for (int k : touching_[v]) {
      const Action& a = actions_[k];
      const bool there = !stays.empty() && stays.back().last >= k;
      const bool makes = a.what == Do::kForward || a.what == Do::kRecompute;
      if (makes && a.index == value.op) {
        if (on_host) return Broken(k, "value ", v, " is on the host");
        if (there) continue;
        Stay stay{.first = k, .last = Size()};
        stay.original = a.what == Do::kForward;
        if (stay.original && !value.saved) {
          stay.counted = false;
          stay.last = value.released < ops_ + stages_
                          ? position_[value.released]
                          : Size();
        }
        stays.push_back(stay);
      }
      if (makes || a.what == Do::kBackward || a.index != v) continue;
      if (a.what == Do::kRestore) {
        if (!on_host) return Broken(k, "value ", v, " is not on the host");
        if (p_.h2d <= 0) return Broken(k, "the profile has no H2D lane");
        on_host = false;
        Stay stay{.first = k, .last = Size()};
        stay.restored = true;
        stays.push_back(stay);
        continue;
      }
      if (!there) return Broken(k, "value ", v, " is not on the device");
      if (auto s = EndStay(v, k, &stays.back()); !s.ok()) return s;
      on_host = a.what == Do::kOffload;
    }
    if (on_host) return Broken(Size(), "value ", v, " is left on the host");
    if (!stays.empty() && stays.back().last == Size() &&
        !(stays.back().original && value.released == ops_ + stages_)) {
      return Broken(Size(), "value ", v, " is left over");
    }
    return absl::OkStatus();
  }

  // A free or an offload of v at position k.
  absl::Status EndStay(int v, int k, Stay* stay) const {
    const Value& value = p_.values[v];
    if (!stay->counted) {
      return Broken(k, "value ", v, " is still held by the script");
    }
    if (value.released == ops_ + stages_ || position_[value.released] > k) {
      return Broken(k, "value ", v, " is released at instant ", value.released,
                    " only");
    }
    stay->last = k;
    stay->end_action = k;
    if (actions_[k].what == Do::kFree) return absl::OkStatus();
    if (!value.movable) return Broken(k, "value ", v, " is not movable");
    if (p_.d2h <= 0) return Broken(k, "the profile has no D2H lane");
    stay->offloaded = true;
    return absl::OkStatus();
  }

  // A value that is not retainable goes before anything runs after both the
  // loss and its release.
  absl::Status CheckLoss(int v) const {
    const Value& value = p_.values[v];
    if (!value.saved || value.retainable) return absl::OkStatus();
    const int held = std::max(value.released, ops_ - 1);
    if (held == ops_ + stages_ || stays_[v].empty()) return absl::OkStatus();
    const Stay& stay = stays_[v].front();
    bool across = stay.offloaded;
    for (int k = position_[held] + 1; k < stay.last && !across; ++k) {
      across = k < Size() && actions_[k].what != Do::kFree &&
               actions_[k].what != Do::kOffload;
    }
    if (!across) return absl::OkStatus();
    return Broken(stay.first, "value ", v,
                  " is kept across the loss but not retainable");
  }

  // The last stay of v that began before position k; stays are in order.
  const Stay* LastBefore(int v, int k) const {
    const auto after =
        std::partition_point(stays_[v].begin(), stays_[v].end(),
                             [k](const Stay& stay) { return stay.first < k; });
    return after == stays_[v].begin() ? nullptr : &*std::prev(after);
  }

  const Stay* StayAt(int v, int k) const {
    const Stay* stay = LastBefore(v, k);
    return stay != nullptr && k <= stay->last ? stay : nullptr;
  }

  // The stay that begins at position k.
  const Stay* StayFrom(int v, int k) const {
    const Stay* stay = LastBefore(v, k + 1);
    return stay != nullptr && stay->first == k ? stay : nullptr;
  }

  absl::Span<const int> Reads(const Action& a) const {
    if (a.what == Do::kBackward) return p_.stages[a.index].needs;
    if (a.what == Do::kForward || a.what == Do::kRecompute) {
      return p_.ops[a.index].inputs;
    }
    return {};
  }

  absl::Status CheckReads() const {
    for (int k = 0; k < Size(); ++k) {
      if (actions_[k].what == Do::kRecompute && !MakesSomething(k)) {
        return Broken(k, "op ", actions_[k].index,
                      " is run again with all its outputs on the device");
      }
      for (int v : Reads(actions_[k])) {
        if (StayAt(v, k) == nullptr) {
          return Broken(k, "value ", v, " is not on the device");
        }
      }
    }
    return absl::OkStatus();
  }

  bool MakesSomething(int k) const {
    for (int v : p_.ops[actions_[k].index].outputs) {
      if (StayFrom(v, k) != nullptr) return true;
    }
    return false;
  }

  // Bytes that are the action's own, or that are alive beside the values.
  Bytes Beside(int k) const {
    const Action& a = actions_[k];
    if (a.what == Do::kForward) return p_.ops[a.index].other;
    if (a.what == Do::kBackward) return p_.stages[a.index].during;
    const Bytes before = p_.stages[StageAt(k)].before;
    if (a.what == Do::kRecompute) return before + p_.ops[a.index].scratch;
    return before;
  }

  // Counts what begins at action k, all at once.
  void Arrive(int k) {
    const Action& a = actions_[k];
    const auto add = [&](int v) {
      const Stay* stay = StayFrom(v, k);
      if (stay != nullptr && stay->counted) resident_ += p_.values[v].bytes;
    };
    if (a.what == Do::kRestore) add(a.index);
    if (a.what != Do::kForward && a.what != Do::kRecompute) return;
    for (int v : p_.ops[a.index].outputs) add(v);
  }

  // Moves `time` on until the bytes fit, and notes them.
  absl::Status Fit(int k, Bytes beside, Time* time) {
    leaving_.Drain(*time, &resident_);
    while (resident_ + beside > budget_) {
      if (leaving_.empty()) {
        return Broken(k, "needs ", Count(resident_ + beside),
                      " bytes, the budget is ", Count(budget_));
      }
      *time = leaving_.next();
      leaving_.Drain(*time, &resident_);
    }
    peak_ = std::max(peak_, resident_ + beside);
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> CheckTimes() {
    Time clock = 0;
    Time issued = 0;
    for (int k = 0; k < Size(); ++k) {
      const Action& a = actions_[k];
      if (a.what == Do::kFree) {
        if (StayAt(a.index, k)->ready > clock) {
          return Broken(k, "value ", a.index, " is still being restored");
        }
        resident_ -= p_.values[a.index].bytes;
        continue;
      }
      if (a.what == Do::kOffload) {
        if (auto s = StartOffload(k, clock); !s.ok()) return s;
        continue;
      }
      for (int v : Reads(a)) clock = std::max(clock, StayAt(v, k)->ready);
      Arrive(k);
      if (auto s = Fit(k, Beside(k), &clock); !s.ok()) return s;
      if (a.what == Do::kRestore) StartRestore(k, clock);
      issued += HostTime(a);
      clock = std::max(clock, issued) + DeviceTime(a);
    }
    if (auto s = Fit(Size(), p_.tail, &clock); !s.ok()) return s;
    return Verdict{.time = clock, .peak = peak_};
  }

  Time HostTime(const Action& a) const {
    if (a.what == Do::kBackward) return p_.stages[a.index].host_time;
    const bool runs = a.what == Do::kForward || a.what == Do::kRecompute;
    return runs ? p_.ops[a.index].host_time : 0;
  }

  Time DeviceTime(const Action& a) const {
    if (a.what == Do::kBackward) return p_.stages[a.index].time;
    const bool runs = a.what == Do::kForward || a.what == Do::kRecompute;
    return runs ? p_.ops[a.index].time : 0;
  }

  absl::Status StartOffload(int k, Time clock) {
    const int v = actions_[k].index;
    Stay& stay = *const_cast<Stay*>(StayAt(v, k));
    const Time start = std::max({clock, d2h_end_, stay.ready});
    d2h_end_ = start + static_cast<double>(Count(p_.values[v].bytes)) / p_.d2h;
    stay.gone = d2h_end_;
    leaving_.Add(stay.gone, p_.values[v].bytes);
    returning_.Drain(clock, &host_);
    host_ += p_.values[v].bytes;
    if (p_.host < Bytes{} || host_ <= p_.host) return absl::OkStatus();
    return Broken(k, "the host would hold ", Count(host_),
                  " bytes, its room is ", Count(p_.host));
  }

  void StartRestore(int k, Time clock) {
    const int v = actions_[k].index;
    const Time start = std::max({clock, h2d_end_, LastBefore(v, k)->gone});
    h2d_end_ = start + static_cast<double>(Count(p_.values[v].bytes)) / p_.h2d;
    const_cast<Stay*>(StayFrom(v, k))->ready = h2d_end_;
    returning_.Add(h2d_end_, p_.values[v].bytes);
  }

  const Profile& p_;
  const absl::Span<const Action> actions_;
  const Bytes budget_;
  const int ops_;
  const int stages_;
  std::vector<int> position_;  // by instant, in the actions
  std::vector<int> next_;      // by action: instants before it
  std::vector<std::vector<int>> touching_;
  std::vector<std::vector<Stay>> stays_;
  Time d2h_end_ = 0;
  Time h2d_end_ = 0;
  Bytes resident_{};  // counted, copies that have not ended included
  Copies leaving_;
  Bytes host_{};
  Copies returning_;
  Bytes peak_{};
};

}  // namespace

absl::StatusOr<Verdict> Validate(const Profile& profile,
                                 absl::Span<const Action> actions,
                                 Bytes budget) {
  return Checker(profile, actions, budget).Run();
}

absl::Status ValidatePlan(const Profile& profile, const Plan& plan) {
  if (!plan.feasible) {
    return absl::FailedPreconditionError("the plan says it is not feasible");
  }
  absl::StatusOr<Verdict> verdict =
      Validate(profile, plan.actions, plan.budget);
  if (!verdict.ok()) return verdict.status();
  if (verdict->time != plan.time) {
    return absl::FailedPreconditionError(absl::StrCat(
        "time: expected ", verdict->time, ", the plan says ", plan.time));
  }
  if (verdict->peak != plan.peak) {
    return absl::FailedPreconditionError(
        absl::StrCat("peak: expected ", Count(verdict->peak),
                     ", the plan says ", Count(plan.peak)));
  }
  return absl::OkStatus();
}

}  // namespace ebbtide
