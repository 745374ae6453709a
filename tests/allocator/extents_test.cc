#include "allocator/extents.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

TEST(ExtentsTest, ExtentsFollowEachOtherUpToTheLimit) {
  Extents extents(Bytes{30}, /*grain=*/1);
  EXPECT_EQ(extents.Take(Bytes{10})->offset, 0);
  EXPECT_EQ(extents.Take(Bytes{20})->offset, 10);
  EXPECT_FALSE(extents.Take(Bytes{1}).has_value());
  EXPECT_EQ(extents.used(), Bytes{30});
}

TEST(ExtentsTest, TheSmallestHoleThatFitsIsTaken) {
  Extents extents(Bytes{100}, /*grain=*/1);
  const Extent big = *extents.Take(Bytes{30});
  extents.Take(Bytes{1});
  const Extent small = *extents.Take(Bytes{20});
  extents.Take(Bytes{1});
  extents.Give(big);
  extents.Give(small);
  EXPECT_EQ(extents.Largest(), Bytes{48});
  EXPECT_EQ(extents.Take(Bytes{15})->offset, 31);
  EXPECT_EQ(extents.Take(Bytes{25})->offset, 0);
  EXPECT_EQ(extents.Take(Bytes{5})->offset, 25);
}

TEST(ExtentsTest, NeighboursCoalesceOnBothSides) {
  Extents extents(Bytes{50}, /*grain=*/1);
  const Extent a = *extents.Take(Bytes{10});
  const Extent b = *extents.Take(Bytes{10});
  const Extent c = *extents.Take(Bytes{10});
  extents.Take(Bytes{20});
  extents.Give(a);
  extents.Give(c);
  EXPECT_FALSE(extents.Take(Bytes{30}).has_value());
  EXPECT_EQ(extents.Largest(), Bytes{10});
  extents.Give(b);
  EXPECT_EQ(extents.Largest(), Bytes{30});
  EXPECT_EQ(extents.Take(Bytes{30})->offset, 0);
}

TEST(ExtentsTest, FreeRoomAtTheEndCountsForLargerExtents) {
  Extents extents(Bytes{40}, /*grain=*/1);
  extents.Take(Bytes{10});
  const Extent b = *extents.Take(Bytes{10});
  const Extent c = *extents.Take(Bytes{10});
  extents.Give(b);
  extents.Give(c);
  EXPECT_EQ(extents.Take(Bytes{30})->offset, 10);
}

TEST(ExtentsTest, SizesAreWholeGrains) {
  Extents extents(Bytes{39}, /*grain=*/10);
  EXPECT_EQ(extents.Largest(), Bytes{30});
  EXPECT_FALSE(extents.Take(Bytes{31}).has_value());
  const Extent extent = *extents.Take(Bytes{11});
  EXPECT_EQ(extent.size, Bytes{20});
  EXPECT_EQ(extents.used(), Bytes{20});
  EXPECT_EQ(extents.Take(Bytes{1})->offset, 20);
  EXPECT_EQ(extents.Largest(), Bytes{0});
  extents.Give(extent);
  EXPECT_EQ(extents.Largest(), Bytes{20});
}

TEST(ExtentsTest, RandomUseNeverSharesAByte) {
  std::mt19937 rng(3);
  Extents extents(Bytes{1000}, /*grain=*/1);
  std::vector<Extent> held;
  std::vector<bool> taken(1000);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    if (rng() % 2 == 0) {
      const auto extent =
          extents.Take(Bytes{1 + static_cast<int64_t>(rng() % 60)});
      if (!extent) {
        ++refused;
        continue;
      }
      for (int at = 0; at < Count(extent->size); ++at) {
        ASSERT_FALSE(taken[extent->offset + at]);
        taken[extent->offset + at] = true;
      }
      held.push_back(*extent);
    } else if (!held.empty()) {
      std::swap(held[rng() % held.size()], held.back());
      for (int at = 0; at < Count(held.back().size); ++at) {
        taken[held.back().offset + at] = false;
      }
      extents.Give(held.back());
      held.pop_back();
    }
  }
  EXPECT_GT(refused, 0);
  for (const Extent& each : held) extents.Give(each);
  EXPECT_EQ(extents.used(), Bytes{0});
  EXPECT_EQ(extents.Take(Bytes{1000})->offset, 0);
}

}  // namespace
}  // namespace ebbtide
