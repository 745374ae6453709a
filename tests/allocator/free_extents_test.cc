#include "allocator/arena/free_extents.h"

#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/fake_pages.h"

namespace ebbtide {
namespace {

TEST(FreeExtentsTest, WorkMayEndWhileNeighboursThatShareItAreSettled) {
  FakePages order(2);  // every second question finds work that is over
  const StreamMark first = *order.Mark(0);
  const StreamMark second = *order.Mark(1);
  FreeExtents extents;
  extents.Add(0, {.end = kArenaGrain,
                  .is_mapped = true,
                  .uses = {{0, first}, {1, second}}});
  extents.Add(
      kArenaGrain,
      {.end = 2 * kArenaGrain, .is_mapped = true, .uses = {{1, second}}});
  EXPECT_TRUE(extents.Settle(&order));
  EXPECT_EQ(order.questions(), 3);
  EXPECT_TRUE(ArenaCheck::Holds(extents));
  EXPECT_EQ(extents.all().size(), 2);
  EXPECT_EQ(extents.LowestFit(kArenaGrain, 1), kArenaGrain);
}

}  // namespace
}  // namespace ebbtide
