#include "tests/cudasim/free_ranges.h"

#include <gtest/gtest.h>

namespace cudasim {
namespace {

TEST(FreeRangesTest, GrowsAtTheEndAndFillsTheFirstHoleThatFits) {
  FreeRanges ranges;
  EXPECT_EQ(ranges.Take(4), 0);
  EXPECT_EQ(ranges.Take(2), 4);
  EXPECT_EQ(ranges.Take(4), 6);
  ranges.Give(0, 4);
  EXPECT_EQ(ranges.Take(5), 10);
  EXPECT_EQ(ranges.Take(3), 0);
  EXPECT_EQ(ranges.Take(1), 3);
  EXPECT_EQ(ranges.end(), 15);
}

TEST(FreeRangesTest, NeighbouringHolesBecomeOne) {
  FreeRanges ranges;
  for (int i = 0; i < 4; ++i) ranges.Take(2);
  ranges.Give(0, 2);
  ranges.Give(4, 2);
  ranges.Give(2, 2);
  EXPECT_EQ(ranges.Take(6), 0);
  EXPECT_EQ(ranges.end(), 8);
}

}  // namespace
}  // namespace cudasim
