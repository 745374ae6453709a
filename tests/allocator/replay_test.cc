#include "allocator/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "allocator/replay/policy.h"

namespace ebbtide {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

constexpr const char* kPolicies[] = {"firstfit", "bestfit", "native",
                                     "expandable", "rmm-pool"};

BufferTrace RandomTrace(uint32_t seed, int streams) {
  std::mt19937 rng(seed);
  BufferTrace trace;
  for (int k = 0; k < 80; ++k) {
    const auto begin = static_cast<int64_t>(rng() % 60);
    const auto end = begin + 1 + static_cast<int64_t>(rng() % 20);
    const int64_t size = 1 + (static_cast<int64_t>(rng() % 1000) << rng() % 16);
    trace.ids.push_back(std::to_string(k));
    trace.streams.push_back(static_cast<int>(rng() % streams));
    trace.problem.buffers.push_back({.size = Bytes{size},
                                     .live = {{begin}, {end}},
                                     .gaps = {},
                                     .offset = {}});
  }
  return trace;
}

TEST(ReplayTest, NoPolicyGivesOneAddressToTwoAtOnce) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const BufferTrace trace = RandomTrace(seed, 1 + static_cast<int>(seed % 3));
    const auto& buffers = trace.problem.buffers;
    for (const char* name : kPolicies) {
      const auto policy = MakeReplayPolicy(name);
      const auto replayed = Replay(trace, 1, policy.get());
      ASSERT_TRUE(replayed.ok());
      for (size_t i = 0; i < buffers.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          const auto& a = buffers[i];
          const auto& b = buffers[j];
          const Bytes x = replayed->addresses[i];
          const Bytes y = replayed->addresses[j];
          ASSERT_FALSE(a.live.begin[0] < b.live.end[0] &&
                       b.live.begin[0] < a.live.end[0] && x < y + b.size &&
                       y < x + a.size)
              << name << " seed " << seed << " buffers " << i << " " << j;
        }
      }
    }
  }
}

// Bytes that are live are reserved, and a step like the one before asks for
// nothing where holes are as they were: with one arena that first fits.
TEST(ReplayTest, WhatIsReservedHoldsWhatIsLive) {
  const BufferTrace trace = RandomTrace(1, 1);
  int64_t most = 0;
  for (const Buffer& at : trace.problem.buffers) {
    int64_t live = 0;
    for (const Buffer& b : trace.problem.buffers) {
      if (b.live.begin[0] <= at.live.begin[0] &&
          at.live.begin[0] < b.live.end[0]) {
        live += Count(b.size);
      }
    }
    most = std::max(most, live);
  }
  for (const char* name : kPolicies) {
    const auto policy = MakeReplayPolicy(name);
    const auto replayed = Replay(trace, 3, policy.get());
    ASSERT_TRUE(replayed.ok());
    EXPECT_GE(Count(replayed->steps[0].reserved), most) << name;
    EXPECT_GE(replayed->steps[2].reserved, replayed->steps[0].reserved);
    EXPECT_GE(replayed->steps[0].driver_calls, 1) << name;
  }
}

TEST(ReplayTest, FirstFitTakesTheLowestHoleAndBestFitTheSmallest) {
  for (const bool best : {false, true}) {
    const auto policy = MakeReplayPolicy(best ? "bestfit" : "firstfit");
    const int64_t wide = policy->Allocate(8, 0);
    policy->Allocate(1, 0);
    const int64_t narrow = policy->Allocate(4, 0);
    policy->Allocate(1, 0);
    policy->Free(wide);
    policy->Free(narrow);
    EXPECT_EQ(policy->Allocate(4, 0), best ? narrow : wide);
    EXPECT_EQ(policy->reserved(), 14);
  }
}

TEST(ReplayTest, NativeSegmentsAreThoseOfPyTorch) {
  const auto policy = MakeReplayPolicy("native");
  policy->Allocate(1, 0);
  EXPECT_EQ(policy->reserved(), 2 * kMiB);
  policy->Allocate(kMiB, 0);  // beside it
  EXPECT_EQ(policy->reserved(), 2 * kMiB);
  const int64_t large = policy->Allocate(kMiB + 1, 0);
  EXPECT_EQ(policy->reserved(), 22 * kMiB);
  policy->Allocate(10 * kMiB, 0);  // fits behind it, as 20 MiB were taken
  EXPECT_EQ(policy->reserved(), 22 * kMiB);
  policy->Allocate(11 * kMiB + 1, 0);
  EXPECT_EQ(policy->reserved(), 34 * kMiB);
  policy->Free(large);
  policy->Allocate(kMiB + 1, 1);  // another stream has pools of its own
  EXPECT_EQ(policy->reserved(), 54 * kMiB);
  EXPECT_EQ(policy->driver_calls(), 4);
}

TEST(ReplayTest, ANativeBlockIsNotSplitForLessThanAMebibyte) {
  const auto policy = MakeReplayPolicy("native");
  policy->Free(policy->Allocate(12 * kMiB, 0));
  policy->Allocate(11 * kMiB, 0);
  policy->Allocate(2 * kMiB, 0);
  EXPECT_EQ(policy->reserved(), 32 * kMiB);
}

TEST(ReplayTest, ExpandableRangesGrowByPagesFromTheLastFreeBlock) {
  const auto policy = MakeReplayPolicy("expandable");
  policy->Allocate(15 * kMiB, 0);
  EXPECT_EQ(policy->reserved(), 20 * kMiB);
  policy->Allocate(15 * kMiB, 0);  // 5 MiB are there
  EXPECT_EQ(policy->reserved(), 40 * kMiB);
  policy->Allocate(10 * kMiB, 0);
  EXPECT_EQ(policy->reserved(), 40 * kMiB);
  policy->Allocate(1, 0);
  EXPECT_EQ(policy->reserved(), 42 * kMiB);
}

TEST(ReplayTest, RmmsPoolDoublesAndTakesFromOtherStreams) {
  const auto policy = MakeReplayPolicy("rmm-pool");
  const int64_t first = policy->Allocate(1000, 0);
  EXPECT_EQ(policy->reserved(), 1024);
  policy->Allocate(256, 0);
  EXPECT_EQ(policy->reserved(), 2048);
  policy->Free(first);
  EXPECT_EQ(policy->Allocate(1024, 1), first);
  EXPECT_EQ(policy->reserved(), 2048);
}

TEST(ReplayTest, WhatOnlyAPlanCanHaveIsRefused) {
  BufferTrace trace = RandomTrace(1, 1);
  trace.problem.buffers[7].alignment = Bytes{2};
  const auto policy = MakeReplayPolicy("firstfit");
  EXPECT_THAT(std::string(Replay(trace, 1, policy.get()).status().message()),
              ::testing::HasSubstr("buffer \"7\": expected one clock"));
  EXPECT_EQ(MakeReplayPolicy("other"), nullptr);
}

}  // namespace
}  // namespace ebbtide
