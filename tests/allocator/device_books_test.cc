#include "allocator/device_books.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

class DeviceBooksTest : public testing::Test {
 protected:
  const void* At(int offset) const { return memory_ + offset; }

  DeviceBooks books_;

 private:
  char memory_[400] = {};
};

TEST_F(DeviceBooksTest, WhatIsAliveIsCountedByKind) {
  books_.OnAllocate(At(0), Bytes{10}, Kind::kParameter);
  books_.OnAllocate(At(10), Bytes{20}, Kind::kSaved);
  EXPECT_EQ(books_.ledger().live(), Bytes{30});
  books_.OnFree(At(0));
  EXPECT_EQ(books_.ledger().live(), Bytes{20});
  EXPECT_EQ(books_.ledger().LiveByKind()[static_cast<int>(Kind::kSaved)],
            Bytes{20});
}

TEST_F(DeviceBooksTest, ASegmentIsIdleWhileItHasNoBlock) {
  books_.OnSegment(At(0), {.size = Bytes{100}});
  books_.OnSegment(At(100), {.size = Bytes{100}});
  EXPECT_EQ(books_.idle(), Bytes{200});
  books_.OnAllocate(At(100), Bytes{10}, Kind::kOther);
  books_.OnAllocate(At(110), Bytes{10}, Kind::kOther);
  EXPECT_EQ(books_.idle(), Bytes{100});
  books_.OnFree(At(100));
  EXPECT_EQ(books_.idle(), Bytes{100});
  books_.OnFree(At(110));
  EXPECT_EQ(books_.idle(), Bytes{200});
  EXPECT_EQ(books_.reserved(), Bytes{200});
}

TEST_F(DeviceBooksTest, EmptyingTheCacheDoesNotReachPrivatePools) {
  books_.OnSegment(At(0), {.size = Bytes{100}, .is_private = true});
  EXPECT_EQ(books_.reserved(), Bytes{100});
  EXPECT_EQ(books_.idle(), Bytes{0});
  books_.OnAllocate(At(50), Bytes{10}, Kind::kOther);
  books_.OnFree(At(50));
  EXPECT_EQ(books_.idle(), Bytes{0});
}

TEST_F(DeviceBooksTest, AnArenaInASegmentServesEveryRequestUntilItIsRemoved) {
  books_.ledger().SetBudget(Bytes{100});
  books_.OnSegment(At(0), {.size = Bytes{100}});
  books_.OnAllocate(At(0), Bytes{40}, Kind::kParameter);
  books_.AddArena(At(40), Bytes{60});
  CacheRequest small = {.size = Bytes{30}, .segment = Bytes{50}};
  small.is_small = true;
  EXPECT_TRUE(books_.FindsRoom(small));
  small.may_use_arena = false;
  EXPECT_FALSE(books_.FindsRoom(small));
  const CacheRequest large = {.size = Bytes{30}, .segment = Bytes{50}};
  books_.OnAllocate(At(40), Bytes{40}, Kind::kSaved);
  EXPECT_FALSE(books_.FindsRoom(large));
  EXPECT_THAT(books_.CheapestToClear(large, {{.block = At(40), .price = 1}}),
              testing::ElementsAre(0));
  // The segment is not given back, although all of the arena may go.
  const CacheRequest segment = {.size = Bytes{90}, .segment = Bytes{100}};
  books_.OnFree(At(0));
  EXPECT_THAT(books_.CheapestToClear(segment, {{.block = At(40), .price = 1}}),
              testing::IsEmpty());
  EXPECT_EQ(books_.idle(), Bytes{0});
  books_.OnFree(At(40));
  books_.RemoveArena(At(40));
  EXPECT_EQ(books_.idle(), Bytes{100});
  EXPECT_TRUE(books_.FindsRoom(segment));
}

TEST_F(DeviceBooksTest, ReservedBytesHaveAPeak) {
  books_.OnSegment(At(0), {.size = Bytes{100}});
  books_.OnSegment(At(100), {.size = Bytes{50}});
  books_.OnSegmentFreed(At(0));
  EXPECT_EQ(books_.reserved(), Bytes{50});
  EXPECT_EQ(books_.idle(), Bytes{50});
  EXPECT_EQ(books_.ReservedPeak(), Bytes{150});
  books_.ResetPeak();
  EXPECT_EQ(books_.ReservedPeak(), Bytes{50});
}

// Of a segment for small requests.
CacheRequest Small(int size) {
  return {.size = Bytes{size}, .segment = Bytes{100}, .is_small = true};
}

TEST_F(DeviceBooksTest, ARequestFindsTheHolesThatBlocksLeave) {
  books_.ledger().SetBudget(Bytes{150});
  EXPECT_TRUE(books_.FindsRoom(Small(50)));
  books_.OnSegment(At(0), {.size = Bytes{100}, .is_small = true});
  for (int i = 0; i < 4; ++i) {
    books_.OnAllocate(At(25 * i), Bytes{25}, Kind::kOther);
  }
  EXPECT_FALSE(books_.FindsRoom(Small(25)));
  books_.OnLeave(At(25));
  EXPECT_TRUE(books_.FindsRoom(Small(25)));
  books_.OnFree(At(25));
  EXPECT_TRUE(books_.FindsRoom(Small(25)));
  EXPECT_FALSE(books_.FindsRoom(Small(50)));
  const Clearable clearables[] = {{At(0), 2}, {At(75), 1}, {At(50), 3}};
  EXPECT_THAT(books_.CheapestToClear(Small(50), clearables),
              testing::ElementsAre(0));
  books_.OnFree(At(0));
  EXPECT_TRUE(books_.FindsRoom(Small(50)));
}

TEST_F(DeviceBooksTest, OfALargeHoleALittleRestIsNotUsedAgain) {
  constexpr int kMiB = 1 << 20;
  books_.ledger().SetBudget(Bytes{20 * kMiB});
  const char* const segment = reinterpret_cast<const char*>(1 << 30);
  books_.OnSegment(segment, {.size = Bytes{20 * kMiB}});
  const auto fits = [&](int size) {
    return books_.FindsRoom({.size = Bytes{size}, .segment = Bytes{30 * kMiB}});
  };
  books_.OnAllocate(segment, Bytes{18 * kMiB}, Kind::kOther);
  EXPECT_TRUE(fits(2 * kMiB));
  books_.OnFree(segment);
  books_.OnAllocate(segment, Bytes{19 * kMiB}, Kind::kOther);
  EXPECT_FALSE(fits(512));
}

TEST_F(DeviceBooksTest, OfExpandableSegmentsAllThatIsNotAliveIsIdle) {
  books_.OnMapped(Bytes{100});
  books_.OnAllocate(At(0), Bytes{30}, Kind::kOther);
  EXPECT_EQ(books_.idle(), Bytes{70});
  books_.OnUnmapped(Bytes{60});
  EXPECT_EQ(books_.reserved(), Bytes{40});
  EXPECT_EQ(books_.idle(), Bytes{10});
}

TEST_F(DeviceBooksTest, WithoutPlacesAllThatIsNotAliveMayBeIdle) {
  books_.ledger().SetBudget(Bytes{100});
  books_.OnSegment(At(0), {.size = Bytes{100}});
  books_.OnAllocate(At(0), Bytes{40}, Kind::kOther);
  EXPECT_EQ(books_.idle(), Bytes{0});
  books_.ForgetPlaces();
  EXPECT_EQ(books_.idle(), Bytes{60});
  books_.OnAllocate(At(40), Bytes{20}, Kind::kOther);
  books_.OnFree(At(0));
  EXPECT_EQ(books_.ledger().live(), Bytes{20});
  EXPECT_EQ(books_.idle(), Bytes{80});
  EXPECT_TRUE(books_.FindsRoom({.size = Bytes{1}, .segment = Bytes{80}}));
  EXPECT_FALSE(books_.FindsRoom({.size = Bytes{1}, .segment = Bytes{81}}));
  ASSERT_EQ(books_.Largest(2).size(), 1);
  EXPECT_EQ(books_.Largest(2)[0].block, At(40));
  EXPECT_EQ(books_.Largest(2)[0].size, Bytes{20});
}

TEST_F(DeviceBooksTest, BlocksOlderThanTheBooksAreIgnored) {
  books_.OnSegment(At(100), {.size = Bytes{100}});
  books_.OnFree(At(0));    // below any segment
  books_.OnFree(At(150));  // in one
  EXPECT_EQ(books_.ledger().live(), Bytes{0});
  EXPECT_EQ(books_.idle(), Bytes{100});
  books_.OnAllocate(At(250), Bytes{10}, Kind::kOther);  // above any
  EXPECT_EQ(books_.idle(), Bytes{100});
}

}  // namespace
}  // namespace ebbtide
