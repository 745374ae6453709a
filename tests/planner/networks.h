// Profiles of whole networks, synthetic: op times from a roofline of
// 100 TFLOP/s and 1.5 TB/s, in nanoseconds; one stage per op, backward.
#ifndef EBBTIDE_TESTS_PLANNER_NETWORKS_H_
#define EBBTIDE_TESTS_PLANNER_NETWORKS_H_

#include <cmath>
#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/profile.h"

namespace ebbtide {

// Peak of the plan that keeps what is needed later and nothing else, which
// budgets of networks are shares of. UnmanagedPeak also has the values that no
// backward needs.
inline int64_t KeepPeak(const Profile& profile) {
  const auto plan =
      MakePlan(profile, {.budget = Bytes{int64_t{1} << 60}, .solver = "keep"});
  return plan.ok() ? Count(plan->peak) : 0;
}

class NetworkBuilder {
 public:
  // Adds an op that makes one value; its backward needs `needs` and, with
  // `needs_own`, the value itself. Times in ns; a negative backward is twice
  // the forward. Returns the value.
  int Add(const char* name, double time, double bytes, std::vector<int> inputs,
          std::vector<int> needs, bool needs_own = false,
          double backward = -1) {
    const int v = static_cast<int>(p_.values.size());
    if (needs_own) needs.push_back(v);
    p_.values.push_back({.name = name, .bytes = Whole(bytes), .op = v});
    p_.ops.push_back({.name = name,
                      .inputs = std::move(inputs),
                      .outputs = {v},
                      .time = std::floor(time),
                      .replayable = true});
    backward_.push_back(std::floor(backward < 0 ? 2 * time : backward));
    needs_.push_back(std::move(needs));
    return v;
  }

  // A plan may keep or move any value, also those that no backward needs: they
  // leave by themselves only where a plan does nothing else with them.
  Profile Finish() {
    const int ops = static_cast<int>(p_.ops.size());
    for (int i = 0; i < ops; ++i) {
      Value& value = p_.values[i];
      value.saved = value.retainable = value.movable = true;
      value.released = i;
      for (int v : p_.ops[i].inputs) p_.values[v].released = i;
    }
    AddStages();
    return p_;
  }

 private:
  static Bytes Whole(double bytes) {
    return Bytes{static_cast<int64_t>(bytes)};
  }

  // A value's gradient lives from its last reader's backward to its own.
  void AddStages() {
    const int ops = static_cast<int>(p_.ops.size());
    std::vector<char> has_gradient(ops, 0);
    has_gradient[ops - 1] = 1;
    Bytes live = p_.values[ops - 1].bytes;
    for (int i = ops - 1; i >= 0; --i) {
      Stage stage{.name = p_.ops[i].name + "'",
                  .needs = needs_[i],
                  .time = backward_[i],
                  .before = live};
      for (int v : p_.ops[i].inputs) {
        if (has_gradient[v]) continue;
        has_gradient[v] = 1;
        live += p_.values[v].bytes;
      }
      stage.during = live;
      if (has_gradient[i]) live -= p_.values[i].bytes;
      p_.stages.push_back(std::move(stage));
    }
  }

  Profile p_;
  std::vector<double> backward_;
  std::vector<std::vector<int>> needs_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_NETWORKS_H_
