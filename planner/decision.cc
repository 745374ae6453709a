#include "planner/decision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/simulate.h"

namespace ebbtide {
namespace {

constexpr Bytes kNoBudget{int64_t{1} << 60};

// State of values while a plan is followed, copies taking no time.
struct Walk {
  explicit Walk(const Profile& profile)
      : offloads(profile.values.size()),
        rebuilt(profile.values.size()),
        reruns(profile.ops.size()) {}
  std::vector<int> offloads;  // by value
  std::vector<int> rebuilt;   // times that a value came back by its op
  std::vector<int> reruns;    // by op
};

Walk WalkThrough(const Profile& profile, const Plan& plan) {
  Walk walk(profile);
  std::vector<char> is_there(profile.values.size());
  for (const Action& action : plan.actions) {
    switch (action.what) {
      case Action::Do::kForward:
        for (int v : profile.ops[action.index].outputs) is_there[v] = 1;
        break;
      case Action::Do::kRecompute:
        ++walk.reruns[action.index];
        for (int v : profile.ops[action.index].outputs) {
          if (!is_there[v]) ++walk.rebuilt[v];
          is_there[v] = 1;
        }
        break;
      case Action::Do::kOffload:
        ++walk.offloads[action.index];
        is_there[action.index] = 0;
        break;
      case Action::Do::kRestore:
        is_there[action.index] = 1;
        break;
      case Action::Do::kFree:
        is_there[action.index] = 0;
        break;
      case Action::Do::kBackward:
        break;
    }
  }
  return walk;
}

// Makes `decision`'s recipe: its op, and those of what autograd does not save.
void FindRecipe(const Profile& profile, Decision* decision) {
  std::vector<char> is_in(profile.ops.size());
  std::vector<int> open = {profile.values[decision->value].op};
  is_in[open[0]] = 1;
  for (size_t k = 0; k < open.size(); ++k) {
    const Op& op = profile.ops[open[k]];
    if (!op.replayable) {
      decision->recipe_ops = 0;
      decision->recipe = 0;
      decision->blocker = open[k];
      return;
    }
    ++decision->recipe_ops;
    decision->recipe += op.time;
    for (int input : op.inputs) {
      const Value& value = profile.values[input];
      if (value.saved || is_in[value.op]) continue;
      is_in[value.op] = 1;
      open.push_back(value.op);
    }
  }
}

// How much sooner the plan ends where the value stays.
absl::StatusOr<Time> WaitsFor(const Profile& profile, const Plan& plan,
                              int value) {
  std::vector<Action> staying;
  for (const Action& action : plan.actions) {
    const bool is_copy = action.what == Action::Do::kOffload ||
                         action.what == Action::Do::kRestore;
    if (!is_copy || action.index != value) staying.push_back(action);
  }
  const auto with = Simulate(profile, plan.actions, kNoBudget);
  if (!with.ok()) return with.status();
  const auto without = Simulate(profile, staying, kNoBudget);
  if (!without.ok()) return without.status();
  return std::max<Time>(0, with->time - without->time);
}

std::string Milliseconds(Time time) {
  return absl::StrFormat("%.3g ms", time / 1e6);
}

std::string Copies(const Decision& d) {
  return absl::StrCat("its copies take ", Milliseconds(d.out), " out and ",
                      Milliseconds(d.back), " back");
}

std::string Recipe(const Profile& profile, const Decision& d) {
  if (d.recipe_ops == 0) {
    return absl::StrCat(InstantName(profile, d.blocker), " does not replay");
  }
  return absl::StrCat("its recipe takes ", Milliseconds(d.recipe), " (",
                      d.recipe_ops, d.recipe_ops == 1 ? " op)" : " ops)");
}

std::string WhyKept(const Profile& profile, const Decision& d) {
  if (d.first_stage < 0) return "no backward op asks for it";
  if (d.is_held) return "the script holds it until its last use";
  const bool is_movable = d.back > 0;
  if (d.recipe_ops == 0 && !is_movable) {
    return absl::StrCat(Recipe(profile, d),
                        ", and there is no tier to copy it to");
  }
  std::string text =
      absl::StrCat("the plan holds its budget with it; ", Recipe(profile, d));
  if (is_movable) absl::StrAppend(&text, ", ", Copies(d));
  return text;
}

std::string Why(const Profile& profile, const Decision& d) {
  if (d.fate == Fate::kKept) return WhyKept(profile, d);
  const std::string waits =
      d.waits > 0 ? absl::StrCat(", of which the compute waits for ",
                                 Milliseconds(d.waits))
                  : ", hidden behind the compute";
  if (d.fate == Fate::kOffloaded) {
    return absl::StrCat(Copies(d), waits, "; ", Recipe(profile, d));
  }
  if (d.fate == Fate::kBoth) {
    return absl::StrCat(Recipe(profile, d), "; ", Copies(d), waits);
  }
  return absl::StrCat(
      Recipe(profile, d), "; ",
      d.back > 0 ? Copies(d) : std::string("there is no tier to copy it to"));
}

Fate FateOf(const Walk& walk, int value) {
  const bool leaves = walk.offloads[value] > 0;
  if (walk.rebuilt[value] == 0) return leaves ? Fate::kOffloaded : Fate::kKept;
  return leaves ? Fate::kBoth : Fate::kRecomputed;
}

// First and last stage that needs each value; -1: none.
struct Needs {
  explicit Needs(const Profile& profile)
      : first(profile.values.size(), -1), last(profile.values.size(), -1) {
    for (int t = 0; t < static_cast<int>(profile.stages.size()); ++t) {
      for (int v : profile.stages[t].needs) {
        if (first[v] < 0) first[v] = t;
        last[v] = t;
      }
    }
  }
  std::vector<int> first;
  std::vector<int> last;
};

Decision Judge(const Profile& profile, const Walk& walk, const Needs& needs,
               int v) {
  const Value& value = profile.values[v];
  Decision d = {.value = v,
                .bytes = value.bytes,
                .fate = FateOf(walk, v),
                .first_stage = needs.first[v],
                .reruns = walk.reruns[value.op]};
  FindRecipe(profile, &d);
  const auto size = static_cast<double>(Count(value.bytes));
  const int ops = static_cast<int>(profile.ops.size());
  // Copies start in the forward pass, of what the script does not hold.
  const bool is_movable =
      value.movable && value.retainable && value.released < ops;
  if (is_movable && profile.d2h > 0 && profile.h2d > 0) {
    d.out = size / profile.d2h;
    d.back = size / profile.h2d;
  }
  d.is_held = needs.last[v] >= 0 && value.released >= ops + needs.last[v];
  return d;
}

std::vector<int> LargestValues(const Profile& profile, int most) {
  std::vector<int> largest;
  for (int v = 0; v < static_cast<int>(profile.values.size()); ++v) {
    if (profile.values[v].saved) largest.push_back(v);
  }
  std::stable_sort(largest.begin(), largest.end(), [&](int a, int b) {
    return profile.values[a].bytes > profile.values[b].bytes;
  });
  if (static_cast<int>(largest.size()) > most) largest.resize(most);
  return largest;
}

}  // namespace

const char* FateName(Fate fate) {
  switch (fate) {
    case Fate::kKept:
      return "kept";
    case Fate::kOffloaded:
      return "offloaded";
    case Fate::kRecomputed:
      return "recomputed";
    case Fate::kBoth:
      return "offloaded and recomputed";
  }
  return "";
}

std::string ValueName(const Profile& profile, int value) {
  const Value& v = profile.values[value];
  return absl::StrCat(v.name, " (op ", v.op, ")");
}

std::vector<Fate> FatesOf(const Profile& profile, const Plan& plan) {
  const Walk walk = WalkThrough(profile, plan);
  std::vector<Fate> fates;
  for (int v = 0; v < static_cast<int>(profile.values.size()); ++v) {
    fates.push_back(FateOf(walk, v));
  }
  return fates;
}

absl::StatusOr<std::vector<Decision>> ExplainPlan(const Profile& profile,
                                                  const Plan& plan, int most) {
  // Also that every index is one of the profile.
  const auto known = Simulate(profile, plan.actions, kNoBudget);
  if (!known.ok()) return known.status();
  const Walk walk = WalkThrough(profile, plan);
  const Needs needs(profile);
  std::vector<Decision> decisions;
  for (const int v : LargestValues(profile, most)) {
    Decision d = Judge(profile, walk, needs, v);
    if (walk.offloads[v] > 0) {
      const auto waits = WaitsFor(profile, plan, v);
      if (!waits.ok()) return waits.status();
      d.waits = *waits;
    }
    d.reason = Why(profile, d);
    decisions.push_back(std::move(d));
  }
  return decisions;
}

}  // namespace ebbtide
