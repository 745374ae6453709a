#include "planner/placed_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/place.h"
#include "planner/simulate.h"

namespace ebbtide {
namespace {

class Layouter {
 public:
  Layouter(const Profile& profile, absl::Span<const Action> actions,
           absl::Span<const int> departures)
      : profile_(profile),
        actions_(actions),
        departures_(departures),
        since_(profile.values.size(), -1) {
    for (const Value& v : profile.values) {
      largest_ = std::max(largest_, v.bytes);
    }
  }

  PlanLayout Run() {
    FindInstants();
    result_.stays = LeastOther();
    for (int at = 0; at < static_cast<int>(actions_.size()); ++at) Do(at);
    const int end = static_cast<int>(actions_.size());
    for (int v = 0; v < static_cast<int>(since_.size()); ++v) End(v, end + 1);
    AddOther(profile_.tail, end);
    return std::move(result_);
  }

 private:
  int Ops() const { return static_cast<int>(profile_.ops.size()); }

  // Of each action: the instant that it belongs to or precedes.
  void FindInstants() {
    int next = 0;
    for (int at = 0; at < static_cast<int>(actions_.size()); ++at) {
      const Action::Do what = actions_[at].what;
      if (static_cast<int>(begins_.size()) == next) begins_.push_back(at);
      instants_.push_back(next);
      if (what == Action::Do::kForward || what == Action::Do::kBackward) ++next;
    }
    begins_.push_back(static_cast<int>(actions_.size()));
  }

  // What is alive while the action runs and is no value of the planner's.
  Bytes OtherOf(int at) const {
    const auto& [what, index] = actions_[at];
    if (what == Action::Do::kForward) return profile_.ops[index].other;
    const int stage = instants_[at] - Ops();
    if (what == Action::Do::kBackward) return profile_.stages[index].during;
    if (what == Action::Do::kRecompute) {
      return profile_.stages[stage].before + profile_.ops[index].scratch;
    }
    return what == Action::Do::kRestore ? profile_.stages[stage].before
                                        : result_.stays;
  }

  Bytes LeastOther() const {
    Bytes least = profile_.tail;
    for (const Op& op : profile_.ops) least = std::min(least, op.other);
    for (const Stage& s : profile_.stages) least = std::min(least, s.before);
    return least;
  }

  void Do(int at) {
    const auto& [what, index] = actions_[at];
    if (what == Action::Do::kForward || what == Action::Do::kRecompute) {
      for (const int v : profile_.ops[index].outputs) {
        // What the script holds is among the other bytes.
        const Value& value = profile_.values[v];
        if (!value.saved && value.released >= instants_[at]) continue;
        if (since_[v] < 0) since_[v] = at;
      }
    }
    if (what == Action::Do::kRestore) since_[index] = at;
    if (what == Action::Do::kFree) End(index, at);
    if (what == Action::Do::kOffload) {
      const auto instant = static_cast<size_t>(departures_[offloads_++]);
      const int gone = instant < begins_.size()
                           ? begins_[instant]
                           : static_cast<int>(actions_.size()) + 1;
      End(index, std::max(gone, at));
    }
    AddOther(OtherOf(at), at);
  }

  void End(int value, int at) {
    const int since = std::exchange(since_[value], -1);
    if (since >= 0) Add(profile_.values[value].bytes, since, at);
  }

  // Bytes that are no value of the planner's are several blocks. How many is
  // not in the profile: none is taken to be larger than the largest value.
  void AddOther(Bytes other, int64_t at) {
    constexpr int kMost = 16;
    other -= result_.stays;
    const Bytes block = std::max(largest_, Bytes{Count(other) / kMost + 1});
    for (; other > Bytes{0}; other -= block) {
      Add(std::min(block, other), at, at + 1);
    }
  }

  void Add(Bytes size, int64_t begin, int64_t end) {
    if (size <= Bytes{0} || begin >= end) return;
    result_.problem.buffers.push_back(
        {.size = size, .live = {.begin = {begin}, .end = {end}}});
  }

  const Profile& profile_;
  const absl::Span<const Action> actions_;
  const absl::Span<const int> departures_;
  std::vector<int> since_;     // by value: the action that made it; -1: absent
  std::vector<int> instants_;  // by action
  std::vector<int> begins_;    // by instant: its first action
  size_t offloads_ = 0;
  Bytes largest_{};  // value
  PlanLayout result_;
};

absl::StatusOr<Bytes> HeightOfPlan(const Profile& profile, const Plan& plan,
                                   Bytes enough) {
  const auto simulation = Simulate(profile, plan.actions, plan.budget);
  if (!simulation.ok()) return simulation.status();
  const PlanLayout layout =
      LayoutOf(profile, plan.actions, simulation->departures);
  // Rounds, but no search: it would lay these blocks out better than it does
  // those that the job then asks for.
  const auto placed =
      Place(layout.problem, {.nodes = 1, .enough = enough - layout.stays});
  if (!placed.ok()) return placed.status();
  return layout.stays + placed->placement.height;
}

}  // namespace

PlanLayout LayoutOf(const Profile& profile, absl::Span<const Action> actions,
                    absl::Span<const int> departures) {
  return Layouter(profile, actions, departures).Run();
}

absl::StatusOr<PlacedPlan> MakePlacedPlan(const Profile& profile,
                                          const PlanOptions& options,
                                          Bytes room, Solver solve) {
  PlacedPlan best;
  PlanOptions tighter = options;
  for (int round = 1; round <= kMostRounds; ++round) {
    auto plan = solve(profile, tighter);
    if (!plan.ok()) return plan.status();
    if (!plan->feasible) {
      if (round == 1) best.plan = *std::move(plan);
      break;
    }
    const auto height = HeightOfPlan(profile, *plan, room);
    if (!height.ok()) return height.status();
    const Bytes peak = plan->peak;
    if (round == 1 || *height < best.height) {
      best.plan = *std::move(plan);
      best.height = *height;
    }
    best.rounds = round;
    if (*height <= room) break;
    // From what the plan took: a budget that it left free changes nothing.
    tighter.budget = std::min(tighter.budget, peak) - (*height - room);
  }
  return best;
}

}  // namespace ebbtide
