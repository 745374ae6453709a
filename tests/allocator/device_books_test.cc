#include "allocator/device_books.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using Pool = DeviceBooks::Pool;

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
  books_.OnSegment(At(0), Bytes{100}, Pool::kCommon);
  books_.OnSegment(At(100), Bytes{100}, Pool::kCommon);
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
  books_.OnSegment(At(0), Bytes{100}, Pool::kPrivate);
  EXPECT_EQ(books_.reserved(), Bytes{100});
  EXPECT_EQ(books_.idle(), Bytes{0});
  books_.OnAllocate(At(50), Bytes{10}, Kind::kOther);
  books_.OnFree(At(50));
  EXPECT_EQ(books_.idle(), Bytes{0});
}

TEST_F(DeviceBooksTest, ReservedBytesHaveAPeak) {
  books_.OnSegment(At(0), Bytes{100}, Pool::kCommon);
  books_.OnSegment(At(100), Bytes{50}, Pool::kCommon);
  books_.OnSegmentFreed(At(0));
  EXPECT_EQ(books_.reserved(), Bytes{50});
  EXPECT_EQ(books_.idle(), Bytes{50});
  EXPECT_EQ(books_.ReservedPeak(), Bytes{150});
  books_.ResetPeak();
  EXPECT_EQ(books_.ReservedPeak(), Bytes{50});
}

TEST_F(DeviceBooksTest, OfExpandableSegmentsAllThatIsNotAliveIsIdle) {
  books_.OnMapped(Bytes{100});
  books_.OnAllocate(At(0), Bytes{30}, Kind::kOther);
  EXPECT_EQ(books_.idle(), Bytes{70});
  books_.OnUnmapped(Bytes{60});
  EXPECT_EQ(books_.reserved(), Bytes{40});
  EXPECT_EQ(books_.idle(), Bytes{10});
}

TEST_F(DeviceBooksTest, BlocksOlderThanTheBooksAreIgnored) {
  books_.OnSegment(At(100), Bytes{100}, Pool::kCommon);
  books_.OnFree(At(0));    // below any segment
  books_.OnFree(At(150));  // in one
  EXPECT_EQ(books_.ledger().live(), Bytes{0});
  EXPECT_EQ(books_.idle(), Bytes{100});
  books_.OnAllocate(At(250), Bytes{10}, Kind::kOther);  // above any
  EXPECT_EQ(books_.idle(), Bytes{100});
}

}  // namespace
}  // namespace ebbtide
