// Walks over random profiles: how many, and at which budgets.
#ifndef EBBTIDE_TESTS_PLANNER_RANDOM_WALK_H_
#define EBBTIDE_TESTS_PLANNER_RANDOM_WALK_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "planner/profile.h"

namespace ebbtide {

// In `./dev long` the second number, elsewhere the first.
inline int Often(int usually, int in_long_runs) {
  return std::getenv("EBBTIDE_LONG") != nullptr ? in_long_runs : usually;
}

struct Seeds {  // [begin, end)
  uint32_t begin = 0;
  uint32_t end = 0;
};

// Calls look(profile, budget) for make(seed) of every seed at each percentage
// of the unmanaged peak, with both in the trace of what fails.
template <class Make, class Look>
void WalkProfiles(Seeds seeds, std::initializer_list<int> percents,
                  const Make& make, const Look& look) {
  for (uint32_t seed = seeds.begin; seed < seeds.end; ++seed) {
    const Profile profile = make(seed);
    const int64_t most = Count(UnmanagedPeak(profile));
    for (int percent : percents) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, " at ", percent, " %"));
      look(profile, std::max<int64_t>(1, most * percent / 100));
    }
  }
}

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_PLANNER_RANDOM_WALK_H_
