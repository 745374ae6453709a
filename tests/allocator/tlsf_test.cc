#include "allocator/tlsf.h"

#include <map>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

constexpr int64_t kGrain = 512;

TEST(TlsfTest, ABlockIsAtLeastWhatWasAskedFor) {
  Tlsf tlsf;
  tlsf.AddRange({0, Bytes{8 * kGrain}});
  EXPECT_EQ(tlsf.Take(Bytes{1})->size, Bytes{kGrain});
  EXPECT_EQ(tlsf.Take(Bytes{kGrain + 1})->size, Bytes{2 * kGrain});
  EXPECT_EQ(tlsf.used(), Bytes{3 * kGrain});
  EXPECT_EQ(tlsf.free(), Bytes{5 * kGrain});
  EXPECT_TRUE(tlsf.Check());
}

TEST(TlsfTest, AWholeRangeCanBeTakenAtOnce) {
  for (const int64_t grains : {1, 2, 15, 16, 17, 31, 33, 1000, 1 << 20}) {
    Tlsf tlsf;
    tlsf.AddRange({kGrain, Bytes{grains * kGrain}});
    const auto all = tlsf.Take(Bytes{grains * kGrain});
    ASSERT_TRUE(all) << grains;
    EXPECT_EQ(all->offset, kGrain);
    EXPECT_FALSE(tlsf.Take(Bytes{1}));
    EXPECT_TRUE(tlsf.Give(kGrain));
    EXPECT_TRUE(tlsf.Check());
  }
}

TEST(TlsfTest, NeighboursCoalesceInEitherOrder) {
  for (const auto& order : {std::vector{0, 1, 2}, {2, 1, 0}, {0, 2, 1}}) {
    Tlsf tlsf;
    tlsf.AddRange({0, Bytes{3 * kGrain}});
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(tlsf.Take(Bytes{kGrain}));
    for (const int i : order) EXPECT_TRUE(tlsf.Give(i * kGrain));
    EXPECT_EQ(tlsf.holes(), 1);
    EXPECT_TRUE(tlsf.Check());
  }
}

TEST(TlsfTest, RangesAreNotJoined) {
  Tlsf tlsf;
  tlsf.AddRange({0, Bytes{kGrain}});
  tlsf.AddRange({kGrain, Bytes{kGrain}});
  EXPECT_FALSE(tlsf.Take(Bytes{2 * kGrain}));
  EXPECT_EQ(tlsf.holes(), 2);
}

TEST(TlsfTest, WhatIsNotABlockIsNotGivenBack) {
  Tlsf tlsf;
  tlsf.AddRange({0, Bytes{4 * kGrain}});
  const auto block = tlsf.Take(Bytes{2 * kGrain});
  EXPECT_FALSE(tlsf.Give(block->offset + kGrain));
  EXPECT_EQ(tlsf.SizeOf(block->offset), Bytes{2 * kGrain});
  EXPECT_EQ(tlsf.SizeOf(block->offset + kGrain), std::nullopt);
  EXPECT_TRUE(tlsf.Give(block->offset));
  EXPECT_FALSE(tlsf.Give(block->offset));
}

// Against a map of what is taken, which is looked through for every block.
TEST(TlsfTest, RandomBlocksNeverOverlap) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 50; ++seed) {
    Tlsf tlsf;
    tlsf.AddRange({0, Bytes{512 * kGrain}});
    tlsf.AddRange({1024 * kGrain, Bytes{300 * kGrain}});
    std::map<int64_t, int64_t> taken;
    for (int i = 0; i < 400; ++i) {
      if (random() % 3 == 0 && !taken.empty()) {
        auto block = std::next(taken.begin(), random() % taken.size());
        ASSERT_TRUE(tlsf.Give(block->first));
        taken.erase(block);
      } else if (const auto block = tlsf.Take(Bytes{
                     static_cast<int64_t>(1 + random() % (40 * kGrain))})) {
        const auto next = taken.lower_bound(block->offset);
        const int64_t end = block->offset + Count(block->size);
        ASSERT_TRUE(next == taken.end() || end <= next->first);
        ASSERT_TRUE(next == taken.begin() ||
                    std::prev(next)->second <= block->offset);
        ASSERT_TRUE(end <= 512 * kGrain ||
                    (block->offset >= 1024 * kGrain && end <= 1324 * kGrain));
        taken[block->offset] = end;
      }
      ASSERT_TRUE(tlsf.Check());
    }
  }
}

}  // namespace
}  // namespace ebbtide
