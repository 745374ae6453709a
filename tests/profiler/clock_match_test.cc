#include "profiler/clock_match.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

TEST(ClockMatch, AMomentLiesBetweenItsBounds) {
  ClockMatch match;
  EXPECT_EQ(match.HostTime(5, 1000, 1040), 1040);
  // It is known by now that the clocks are 1,035 apart at most.
  EXPECT_EQ(match.HostTime(10, 1000, 1100), 1045);
  EXPECT_EQ(match.HostTime(20, 1000, 1050), 1050);
  EXPECT_EQ(match.HostTime(30, 1065, 1200), 1065);
  EXPECT_EQ(match.HostTime(40, 1000, 1200), 1075);
}

// By the nearest bounds so far, which a scan of all of them finds.
TEST(ClockMatch, NothingThatWasKnownIsForgotten) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> any(-1'000'000'000'000,
                                             1'000'000'000'000);
  std::uniform_int_distribution<int64_t> far(0, 100'000);
  for (int run = 0; run < 200; ++run) {
    const int64_t apart = any(random);
    ClockMatch match;
    int64_t now = 0;
    int64_t least_before = far.max();
    int64_t least_after = far.max();
    for (int i = 0; i < 100; ++i) {
      now += far(random);
      const int64_t before = far(random);
      const int64_t after = far(random);
      least_before = std::min(least_before, before);
      least_after = std::min(least_after, after);
      const int64_t at = match.HostTime(now - apart, now - before, now + after);
      EXPECT_GE(at, now - least_before);
      EXPECT_LE(at, now + least_after);
    }
  }
}

TEST(ClockMatch, FollowsAClockThatDrifts) {
  for (const int drift : {-1, 1}) {
    ClockMatch match;
    for (int64_t now = 0; now < 1'000'000'000; now += 10'000) {
      const int64_t there = now + drift * now / 10'000;
      const int64_t at = match.HostTime(there, now - 30, now + 30);
      EXPECT_LE(std::abs(at - now), 30);
    }
  }
}

}  // namespace
}  // namespace ebbtide
