#include "planner/doubt.h"

#include <algorithm>

#include "planner/simulate.h"

namespace ebbtide {
namespace {

int InstantsOf(const Profile& profile) {
  return static_cast<int>(profile.ops.size() + profile.stages.size());
}

Time* TimeAt(Profile* profile, int instant) {
  const int ops = static_cast<int>(profile->ops.size());
  return instant < ops ? &profile->ops[instant].time
                       : &profile->stages[instant - ops].time;
}

// Counts the runs of each op and stage.
absl::StatusOr<std::vector<int>> CountRuns(const Profile& profile,
                                           const Plan& plan) {
  const int ops = static_cast<int>(profile.ops.size());
  std::vector<int> runs(InstantsOf(profile));
  for (const Action& action : plan.actions) {
    const bool forward = action.what == Action::Do::kForward ||
                         action.what == Action::Do::kRecompute;
    if (!forward && action.what != Action::Do::kBackward) continue;
    const int instant = forward ? action.index : ops + action.index;
    if (action.index < 0 || instant >= static_cast<int>(runs.size())) {
      return absl::InvalidArgumentError("the plan is of another profile");
    }
    ++runs[instant];
  }
  return runs;
}

Time MostMoved(const Doubt& doubt) {
  return doubt.runs * (doubt.upper - doubt.time);
}

void KeepLargest(size_t most, Time (*size)(const Doubt&),
                 std::vector<Doubt>* doubts) {
  std::stable_sort(
      doubts->begin(), doubts->end(),
      [&](const Doubt& a, const Doubt& b) { return size(a) > size(b); });
  if (doubts->size() > most) doubts->resize(most);
}

}  // namespace

const TimeSpread& SpreadAt(const Profile& profile, int instant) {
  const int ops = static_cast<int>(profile.ops.size());
  return instant < ops ? profile.ops[instant].spread
                       : profile.stages[instant - ops].spread;
}

absl::StatusOr<std::vector<Doubt>> RankDoubts(const Profile& profile,
                                              const Plan& plan, int most) {
  const auto runs = CountRuns(profile, plan);
  if (!runs.ok()) return runs.status();
  const auto known = Simulate(profile, plan.actions, plan.budget);
  if (!known.ok()) return known.status();
  Profile changed = profile;
  std::vector<Doubt> doubts;
  for (int i = 0; i < InstantsOf(profile); ++i) {
    const TimeSpread& spread = SpreadAt(profile, i);
    if (spread.steps == 0) continue;
    const Time time = *TimeAt(&changed, i);
    const Time upper = std::max(time, spread.median + spread.quartiles);
    doubts.push_back({.instant = i,
                      .time = time,
                      .spread = spread,
                      .upper = upper,
                      .runs = (*runs)[i]});
  }
  KeepLargest(10 * most, &MostMoved, &doubts);
  for (Doubt& doubt : doubts) {
    *TimeAt(&changed, doubt.instant) = doubt.upper;
    const auto slow = Simulate(changed, plan.actions, plan.budget);
    *TimeAt(&changed, doubt.instant) = doubt.time;
    if (!slow.ok()) return slow.status();
    doubt.moves = slow->time - known->time;
  }
  std::erase_if(doubts, [](const Doubt& doubt) { return doubt.moves <= 0; });
  KeepLargest(
      most, [](const Doubt& doubt) { return doubt.moves; }, &doubts);
  return doubts;
}

std::vector<int> Outliers(const Profile& profile) {
  const Time least = BaseTime(profile) / 100;
  std::vector<int> outliers;
  for (int i = 0; i < InstantsOf(profile); ++i) {
    const TimeSpread& spread = SpreadAt(profile, i);
    if (spread.most > 2 * spread.median &&
        spread.most - spread.median > least) {
      outliers.push_back(i);
    }
  }
  std::stable_sort(outliers.begin(), outliers.end(), [&](int a, int b) {
    return SpreadAt(profile, a).most > SpreadAt(profile, b).most;
  });
  return outliers;
}

bool KnowsSpread(const Profile& profile) {
  for (int i = 0; i < InstantsOf(profile); ++i) {
    if (SpreadAt(profile, i).steps > 0) return true;
  }
  return false;
}

}  // namespace ebbtide
