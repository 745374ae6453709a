#include "planner/least_peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "planner/plan.h"
#include "tests/planner/profiles.h"

namespace ebbtide {
namespace {

TEST(LeastPeakTest, CountsWhatAnInstantReadsAndMakes) {
  const LeastPeak least = FindLeastPeak(ThreeOps(), false);
  EXPECT_EQ(least.bytes, Bytes{4 + 8 + 1});
  EXPECT_EQ(least.other, Bytes{1});
  EXPECT_EQ(least.instant, 1);
  EXPECT_EQ(least.name, "op 1 make_b");
  EXPECT_THAT(least.values, testing::ElementsAre(0, 1));
}

TEST(LeastPeakTest, CountsWhatTheScriptHolds) {
  Profile profile = ThreeOps();
  profile.values[0].released = 3;
  const LeastPeak least = FindLeastPeak(profile, true);
  EXPECT_EQ(least.bytes, Bytes{4 + 8 + 2 + 1});
  EXPECT_EQ(least.instant, 2);
  EXPECT_THAT(least.values, testing::ElementsAre(0, 1, 2));
}

TEST(LeastPeakTest, SpillingTakesAwayWhatCannotBeMadeAgain) {
  Profile profile = ThreeOps();
  profile.ops[0].replayable = false;
  EXPECT_EQ(FindLeastPeak(profile, false).bytes, Bytes{4 + 8 + 2 + 1});
  EXPECT_EQ(FindLeastPeak(profile, true).bytes, Bytes{4 + 8 + 1});
  profile.values[0].movable = false;
  EXPECT_EQ(FindLeastPeak(profile, true).bytes, Bytes{4 + 8 + 2 + 1});
}

TEST(LeastPeakTest, TheTailCounts) {
  Profile profile = ThreeOps();
  profile.tail = Bytes{100};
  const LeastPeak least = FindLeastPeak(profile, true);
  EXPECT_EQ(least.bytes, Bytes{100});
  EXPECT_EQ(least.name, "tail");
}

TEST(LeastPeakTest, NoPlanIsBelowIt) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    for (bool offload : {false, true}) {
      const Profile profile = RandomProfile(seed, 8, offload);
      const auto floor = Floor(profile, {.time_limit = absl::Milliseconds(20),
                                         .evaluations = 50,
                                         .allow_offload = offload});
      ASSERT_TRUE(floor.ok()) << floor.status();
      EXPECT_LE(FindLeastPeak(profile, offload).bytes, floor->bytes)
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ebbtide
