#include "allocator/holes.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using Ranges = std::vector<Hole>;

// Runs of free bytes, ascending.
Ranges RunsOf(const std::vector<bool>& is_free) {
  Ranges runs;
  for (int64_t at = 0; at < std::ssize(is_free); ++at) {
    if (!is_free[at]) continue;
    if (runs.empty() || runs.back().end() != at) runs.push_back({.begin = at});
    ++runs.back().size;
  }
  return runs;
}

std::optional<Hole> BestOf(const Ranges& runs, int64_t size) {
  std::optional<Hole> best;
  for (const Hole& run : runs) {
    if (run.size >= size && (!best || run.size < best->size)) best = run;
  }
  return best;
}

TEST(HolesTest, HolesAreTheRunsOfFreeBytes) {
  std::mt19937 random(5);
  constexpr int64_t kBytes = 400;
  Holes holes;
  std::vector<bool> is_free(kBytes);
  for (int round = 0; round < 20'000; ++round) {
    const int64_t size = 1 + random() % 20;
    if (random() % 2 == 0) {
      const int64_t begin = random() % (kBytes - size);
      const auto first = is_free.begin() + begin;
      if (std::find(first, first + size, true) != first + size) continue;
      holes.Add({.begin = begin, .size = size});
      std::fill_n(first, size, true);
    } else if (const auto best = holes.Best(size)) {
      holes.TakeFront(*best, size);
      std::fill_n(is_free.begin() + best->begin, size, false);
    }
    const Ranges runs = RunsOf(is_free);
    ASSERT_EQ(holes.all().size(), runs.size());
    int64_t largest = 0;
    for (const Hole& run : runs) {
      ASSERT_EQ(holes.all().at(run.begin), run.size);
      ASSERT_EQ(holes.EndingAt(run.end()), run);
      largest = std::max(largest, run.size);
    }
    ASSERT_EQ(holes.Largest(), largest);
    const int64_t wanted = 1 + random() % 30;
    ASSERT_EQ(holes.Best(wanted), BestOf(runs, wanted));
    const auto lowest =
        std::find_if(runs.begin(), runs.end(),
                     [&](const Hole& run) { return run.size >= wanted; });
    ASSERT_EQ(holes.Lowest(wanted).has_value(), lowest != runs.end());
    if (lowest != runs.end()) {
      ASSERT_EQ(*holes.Lowest(wanted), *lowest);
    }
  }
}

TEST(HolesTest, AnEmptyHoleIsNone) {
  Holes holes;
  holes.Add({.begin = 7});
  EXPECT_TRUE(holes.all().empty());
  EXPECT_EQ(holes.EndingAt(7).size, 0);
  EXPECT_EQ(holes.EndingAt(7).begin, 7);
  EXPECT_FALSE(holes.Best(1).has_value());
}

}  // namespace
}  // namespace ebbtide
