#include "planner/simulate.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"

namespace ebbtide {
namespace {

enum class Where : uint8_t {
  kAbsent,
  kScript,  // not saved, still held by the script: there, but not counted
  kDevice,
  kHost,  // on its way there, or there
};

struct State {
  Where where = Where::kAbsent;
  Time ready = 0;  // end of its last copy
};

struct Leaving {
  Time end;
  Bytes bytes;
  int offload;  // in the order of the actions
  int value;
};

struct Returning {
  Time end;
  Bytes bytes;
};

class Simulator {
 public:
  Simulator(const Profile& profile, Bytes budget,
            absl::Span<const int> departures)
      : profile_(profile),
        budget_(budget),
        planned_(departures),
        states_(profile.values.size()) {
    const size_t instants = profile.ops.size() + profile.stages.size();
    result_.curve.assign(instants + 1, Bytes{});
    released_.resize(instants + 1);
    for (size_t v = 0; v < profile.values.size(); ++v) {
      if (!profile.values[v].saved) {
        released_[profile.values[v].released].push_back(v);
      }
    }
  }

  // Those must be all the actions, in their order.
  absl::Status Do(const Action& action) {
    ++actions_;
    switch (action.what) {
      case Action::Do::kForward:
        return Forward(action.index);
      case Action::Do::kBackward:
        return Backward(action.index);
      case Action::Do::kRecompute:
        return Recompute(action.index);
      case Action::Do::kFree:
        return Free(action.index);
      case Action::Do::kOffload:
        return Offload(action.index);
      case Action::Do::kRestore:
        return Restore(action.index);
    }
    return absl::InvalidArgumentError("unknown action");
  }

  absl::StatusOr<Simulation> Finish() {
    const size_t instants = profile_.ops.size() + profile_.stages.size();
    if (next_ != static_cast<int>(instants)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan ends before ", InstantName(profile_, next_)));
    }
    ++actions_;
    if (auto s = Occupy(profile_.tail); !s.ok()) return s;
    result_.time = clock_;
    return std::move(result_);
  }

  // Values whose bytes count now, in their order.
  std::vector<int> Resident() const {
    std::vector<bool> is_leaving(states_.size());
    for (const Leaving& leaving : leaving_) is_leaving[leaving.value] = true;
    std::vector<int> resident;
    for (int v = 0; v < static_cast<int>(states_.size()); ++v) {
      if (states_[v].where == Where::kDevice || is_leaving[v]) {
        resident.push_back(v);
      }
    }
    return resident;
  }

 private:
  int Ops() const { return profile_.ops.size(); }

  absl::Status Check(int index, size_t size) const {
    if (index >= 0 && static_cast<size_t>(index) < size) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("expected an index below ", size));
  }

  absl::Status Missing(int v) const {
    return absl::InvalidArgumentError(
        absl::StrCat("value ", v, " is not on the device"));
  }

  // Waits for the restores of `values`, all of which must be there.
  absl::Status Await(const std::vector<int>& values) {
    for (int v : values) {
      const State& state = states_[v];
      if (state.where != Where::kDevice && state.where != Where::kScript) {
        return Missing(v);
      }
      WaitUntil(state.ready);
    }
    return absl::OkStatus();
  }

  void WaitUntil(Time time) {
    if (time <= clock_) return;
    result_.stall += time - clock_;
    clock_ = time;
  }

  // Runs an op or a stage whose inputs and memory are there.
  template <class Part>
  void Run(const Part& part) {
    host_clock_ += part.host_time;
    result_.starved += std::max(0.0, host_clock_ - clock_);
    clock_ = std::max(clock_, host_clock_) + part.time;
  }

  void Drain() {
    while (!leaving_.empty() && leaving_.front().end <= clock_ &&
           (planned_.empty() || planned_[leaving_.front().offload] <= next_)) {
      Depart();
    }
  }

  void Depart() {
    resident_ -= leaving_.front().bytes;
    result_.departures[leaving_.front().offload] = next_;
    leaving_.pop_front();
  }

  // Waits until `extra` bytes fit beside the resident ones.
  absl::Status Occupy(Bytes extra) {
    Drain();
    while (resident_ + extra > budget_ && !leaving_.empty()) {
      WaitUntil(leaving_.front().end);
      Depart();
    }
    const Bytes live = resident_ + extra;
    result_.curve[next_] = std::max(result_.curve[next_], live);
    if (live > result_.peak) {
      result_.peak = live;
      result_.peak_instant = next_;
      result_.peak_action = actions_ - 1;
    }
    if (live <= budget_) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(InstantName(profile_, next_), " needs ", Count(live),
                     " bytes, the budget is ", Count(budget_)));
  }

  absl::Status Forward(int i) {
    if (auto s = Check(i, profile_.ops.size()); !s.ok()) return s;
    if (i != next_) return WrongOrder();
    const Op& op = profile_.ops[i];
    if (auto s = Await(op.inputs); !s.ok()) return s;
    Bytes made{};
    for (int v : op.outputs) {
      if (profile_.values[v].saved) made += profile_.values[v].bytes;
    }
    if (auto s = Occupy(op.other + made); !s.ok()) return s;
    for (int v : op.outputs) {
      const bool saved = profile_.values[v].saved;
      states_[v] = {saved ? Where::kDevice : Where::kScript, clock_};
    }
    resident_ += made;
    Run(op);
    EndInstant();
    return absl::OkStatus();
  }

  absl::Status Backward(int t) {
    if (auto s = Check(t, profile_.stages.size()); !s.ok()) return s;
    if (Ops() + t != next_) return WrongOrder();
    const Stage& stage = profile_.stages[t];
    if (auto s = Await(stage.needs); !s.ok()) return s;
    if (auto s = Occupy(stage.during); !s.ok()) return s;
    Run(stage);
    EndInstant();
    return absl::OkStatus();
  }

  absl::Status Recompute(int i) {
    if (auto s = Check(i, profile_.ops.size()); !s.ok()) return s;
    if (auto s = CheckInBackward(); !s.ok()) return s;
    const Op& op = profile_.ops[i];
    if (auto s = Await(op.inputs); !s.ok()) return s;
    Bytes made{};
    for (int v : op.outputs) {
      if (states_[v].where == Where::kHost) return Missing(v);
      if (states_[v].where == Where::kAbsent) made += profile_.values[v].bytes;
    }
    if (auto s = Occupy(Before() + made + op.scratch); !s.ok()) return s;
    for (int v : op.outputs) {
      if (states_[v].where != Where::kAbsent) continue;
      states_[v] = {Where::kDevice, clock_};
    }
    resident_ += made;
    Run(op);
    return absl::OkStatus();
  }

  absl::Status Free(int v) {
    if (auto s = Check(v, states_.size()); !s.ok()) return s;
    State& state = states_[v];
    if (state.where != Where::kDevice || state.ready > clock_) {
      return Missing(v);
    }
    resident_ -= profile_.values[v].bytes;
    state.where = Where::kAbsent;
    return absl::OkStatus();
  }

  absl::Status Offload(int v) {
    if (auto s = Check(v, states_.size()); !s.ok()) return s;
    State& state = states_[v];
    if (state.where != Where::kDevice) return Missing(v);
    if (profile_.d2h <= 0) {
      return absl::InvalidArgumentError("the profile has no D2H lane");
    }
    const Bytes bytes = profile_.values[v].bytes;
    if (auto s = TakeHostRoom(bytes); !s.ok()) return s;
    const Time start = std::max(std::max(clock_, d2h_), state.ready);
    d2h_ = start + static_cast<double>(Count(bytes)) / profile_.d2h;
    state = {Where::kHost, d2h_};
    leaving_.push_back(
        {d2h_, bytes, static_cast<int>(result_.departures.size()), v});
    result_.departures.push_back(result_.curve.size() - 1);
    return absl::OkStatus();
  }

  absl::Status Restore(int v) {
    if (auto s = Check(v, states_.size()); !s.ok()) return s;
    if (auto s = CheckInBackward(); !s.ok()) return s;
    State& state = states_[v];
    if (state.where != Where::kHost) {
      return absl::InvalidArgumentError(
          absl::StrCat("value ", v, " is not on the host"));
    }
    if (profile_.h2d <= 0) {
      return absl::InvalidArgumentError("the profile has no H2D lane");
    }
    const Bytes bytes = profile_.values[v].bytes;
    if (auto s = Occupy(Before() + bytes); !s.ok()) return s;
    resident_ += bytes;
    const Time start = std::max(std::max(clock_, h2d_), state.ready);
    h2d_ = start + static_cast<double>(Count(bytes)) / profile_.h2d;
    state = {Where::kDevice, h2d_};
    returning_.push_back({h2d_, bytes});
    return absl::OkStatus();
  }

  absl::Status TakeHostRoom(Bytes bytes) {
    while (!returning_.empty() && returning_.front().end <= clock_) {
      host_ -= returning_.front().bytes;
      returning_.pop_front();
    }
    host_ += bytes;
    if (profile_.host < Bytes{} || host_ <= profile_.host) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("the host would hold ", Count(host_),
                     " bytes, its room is ", Count(profile_.host)));
  }

  absl::Status WrongOrder() const {
    return absl::InvalidArgumentError(
        absl::StrCat("the next op or stage is ", InstantName(profile_, next_)));
  }

  absl::Status CheckInBackward() const {
    if (next_ >= Ops() &&
        next_ < Ops() + static_cast<int>(profile_.stages.size())) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "only between the last forward op and the last stage");
  }

  Bytes Before() const { return profile_.stages[next_ - Ops()].before; }

  // Values that the script held until now die, unless autograd saved them.
  void EndInstant() {
    for (int v : released_[next_]) {
      if (states_[v].where == Where::kScript) {
        states_[v].where = Where::kAbsent;
      }
    }
    ++next_;
  }

  const Profile& profile_;
  const Bytes budget_;
  const absl::Span<const int> planned_;  // departures; empty: none
  std::vector<State> states_;
  std::vector<std::vector<int>> released_;  // unsaved values by `released`
  int next_ = 0;                            // instant to come
  int actions_ = 0;                         // begun
  Time clock_ = 0;
  Time host_clock_ = 0;  // all actions so far are issued
  Time d2h_ = 0;         // end of the last copy of the lane
  Time h2d_ = 0;
  Bytes resident_{};
  std::deque<Leaving> leaving_;  // running offloads
  Bytes host_{};
  std::deque<Returning> returning_;  // running restores
  Simulation result_;
};

}  // namespace

std::string InstantName(const Profile& profile, int instant) {
  const int ops = profile.ops.size();
  const int stages = profile.stages.size();
  if (instant < ops) {
    return absl::StrCat("op ", instant, " ", profile.ops[instant].name);
  }
  if (instant < ops + stages) {
    return absl::StrCat("stage ", instant - ops, " ",
                        profile.stages[instant - ops].name);
  }
  return "tail";
}

absl::StatusOr<Simulation> Simulate(const Profile& profile,
                                    absl::Span<const Action> actions,
                                    Bytes budget,
                                    absl::Span<const int> departures) {
  Simulator simulator(profile, budget, departures);
  for (size_t k = 0; k < actions.size(); ++k) {
    absl::Status status = simulator.Do(actions[k]);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("actions[", k, "]: ", status.message()));
    }
  }
  return simulator.Finish();
}

absl::StatusOr<std::vector<int>> PeakHolders(const Profile& profile,
                                             absl::Span<const Action> actions,
                                             Bytes budget) {
  const auto whole = Simulate(profile, actions, budget);
  if (!whole.ok()) return whole.status();
  Simulator again(profile, budget, {});
  const int count = static_cast<int>(actions.size());
  for (int k = 0; k < std::min(whole->peak_action + 1, count); ++k) {
    if (auto s = again.Do(actions[k]); !s.ok()) return s;
  }
  if (whole->peak_action == count) {
    if (auto s = again.Finish(); !s.ok()) return s.status();
  }
  return again.Resident();
}

}  // namespace ebbtide
