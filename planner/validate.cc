#include "planner/validate.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

using Do = Action::Do;

constexpr Time kNever = std::numeric_limits<Time>::infinity();

// One stretch of a value's presence on the device, in positions of the action
// list: readable by actions in (first, last].
struct Stay {
  int first = 0;
  int last = 0;
  bool counted = true;
  bool original = false;   // made by the forward op, not rebuilt or restored
  int end_action = -1;     // the free or offload that ends it; -1: none
  bool offloaded = false;  // ends by an offload
  bool restored = false;   // began by a restore
  Time ready = 0;          // timing: when it may be read
  Time gone = kNever;      // timing: end of the offload's copy
};

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
  int StageAt(int k) const {
    int done = 0;
    while (done < ops_ + stages_ && position_[done] < k) ++done;
    return done - ops_;
  }

  // Builds the stays of value v from the actions that touch it.
  absl::Status FollowValue(int v) {
    const Value& value = p_.values[v];
    std::vector<Stay>& stays = stays_[v];
    bool on_host = false;
    for (int k = 0; k < Size(); ++k) {
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

  // What is not retainable goes before anything runs after both the loss and
  // its release.
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

  const Stay* StayAt(int v, int k) const {
    for (const Stay& stay : stays_[v]) {
      if (stay.first < k && k <= stay.last) return &stay;
    }
    return nullptr;
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
      for (const Stay& stay : stays_[v]) {
        if (stay.first == k) return true;
      }
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

  // Bytes of all values at `time`, action k running.
  Bytes Resident(int k, Time time) const {
    Bytes sum{};
    for (size_t v = 0; v < stays_.size(); ++v) {
      for (const Stay& stay : stays_[v]) {
        if (!stay.counted || stay.first > k) continue;
        const bool left = stay.end_action >= 0 && stay.end_action < k &&
                          (!stay.offloaded || stay.gone <= time);
        if (!left) sum += p_.values[v].bytes;
      }
    }
    return sum;
  }

  // Earliest end of a running copy to the host after `time`.
  Time NextEnd(int k, Time time) const {
    Time next = kNever;
    for (const std::vector<Stay>& stays : stays_) {
      for (const Stay& stay : stays) {
        if (!stay.offloaded || stay.end_action >= k) continue;
        if (stay.gone > time) next = std::min(next, stay.gone);
      }
    }
    return next;
  }

  // Moves `time` on until the bytes fit, and notes them.
  absl::Status Fit(int k, Bytes beside, Time* time) {
    Bytes live = Resident(k, *time) + beside;
    while (live > budget_) {
      const Time next = NextEnd(k, *time);
      if (next == kNever) {
        return Broken(k, "needs ", Count(live), " bytes, the budget is ",
                      Count(budget_));
      }
      *time = next;
      live = Resident(k, *time) + beside;
    }
    peak_ = std::max(peak_, live);
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> CheckTimes() {
    Time clock = 0;
    for (int k = 0; k < Size(); ++k) {
      const Action& a = actions_[k];
      if (a.what == Do::kFree) {
        if (StayAt(a.index, k)->ready > clock) {
          return Broken(k, "value ", a.index, " is still being restored");
        }
        continue;
      }
      if (a.what == Do::kOffload) {
        if (auto s = StartOffload(k, clock); !s.ok()) return s;
        continue;
      }
      for (int v : Reads(a)) clock = std::max(clock, StayAt(v, k)->ready);
      if (auto s = Fit(k, Beside(k), &clock); !s.ok()) return s;
      if (a.what == Do::kRestore) StartRestore(k, clock);
      if (a.what == Do::kForward || a.what == Do::kRecompute) {
        clock += p_.ops[a.index].time;
      }
      if (a.what == Do::kBackward) clock += p_.stages[a.index].time;
    }
    if (auto s = Fit(Size(), p_.tail, &clock); !s.ok()) return s;
    return Verdict{.time = clock, .peak = peak_};
  }

  absl::Status StartOffload(int k, Time clock) {
    const int v = actions_[k].index;
    Stay& stay = *const_cast<Stay*>(StayAt(v, k));
    const Time start = std::max({clock, d2h_end_, stay.ready});
    d2h_end_ = start + static_cast<double>(Count(p_.values[v].bytes)) / p_.d2h;
    stay.gone = d2h_end_;
    Bytes host{};
    for (size_t u = 0; u < stays_.size(); ++u) {
      for (size_t s = 0; s < stays_[u].size(); ++s) {
        if (!stays_[u][s].offloaded || stays_[u][s].end_action > k) continue;
        // The stay after an offload is its restore.
        const Stay& back = stays_[u][s + 1];
        if (back.first < k && back.ready <= clock) continue;
        host += p_.values[u].bytes;
      }
    }
    if (p_.host < Bytes{} || host <= p_.host) return absl::OkStatus();
    return Broken(k, "the host would hold ", Count(host),
                  " bytes, its room is ", Count(p_.host));
  }

  void StartRestore(int k, Time clock) {
    const int v = actions_[k].index;
    std::vector<Stay>& stays = stays_[v];
    size_t s = 0;
    while (stays[s].first != k) ++s;
    const Time start = std::max({clock, h2d_end_, stays[s - 1].gone});
    h2d_end_ = start + static_cast<double>(Count(p_.values[v].bytes)) / p_.h2d;
    stays[s].ready = h2d_end_;
  }

  const Profile& p_;
  const absl::Span<const Action> actions_;
  const Bytes budget_;
  const int ops_;
  const int stages_;
  std::vector<int> position_;  // of each instant in the actions
  std::vector<std::vector<Stay>> stays_;
  Time d2h_end_ = 0;
  Time h2d_end_ = 0;
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
