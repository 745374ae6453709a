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

TEST_F(DeviceBooksTest, ReservedBytesHaveAPeak) {
  books_.OnSegment(At(0), Bytes{100}, /*is_private=*/false);
  books_.OnSegment(At(100), Bytes{50}, /*is_private=*/false);
  books_.OnSegmentFreed(At(0));
  EXPECT_EQ(books_.reserved(), Bytes{50});
  EXPECT_EQ(books_.ReservedPeak(), Bytes{150});
  books_.ResetPeak();
  EXPECT_EQ(books_.ReservedPeak(), Bytes{50});
}

TEST_F(DeviceBooksTest, BlocksOfPrivatePoolsAreFoundByTheirSegment) {
  books_.OnSegment(At(0), Bytes{100}, /*is_private=*/false);
  EXPECT_FALSE(books_.IsPrivate(At(10)));
  books_.OnSegment(At(100), Bytes{100}, /*is_private=*/true);
  EXPECT_FALSE(books_.IsPrivate(At(99)));
  EXPECT_TRUE(books_.IsPrivate(At(100)));
  EXPECT_TRUE(books_.IsPrivate(At(199)));
  EXPECT_FALSE(books_.IsPrivate(At(200)));
  books_.OnSegmentFreed(At(100));
  EXPECT_FALSE(books_.IsPrivate(At(100)));
}

TEST_F(DeviceBooksTest, IdleBytesOfTheNativeAllocatorAreWithoutTheArenas) {
  books_.SetArena(At(200), At(400));
  books_.OnSegment(At(0), Bytes{100}, /*is_private=*/false);
  books_.OnAllocate(At(0), Bytes{30}, Kind::kOther);
  EXPECT_EQ(books_.NativeIdle(), Bytes{70});
  books_.OnMapped(At(200), Bytes{50});
  books_.OnAllocate(At(210), Bytes{20}, Kind::kOther);
  EXPECT_EQ(books_.NativeIdle(), Bytes{70});
  EXPECT_EQ(books_.reserved(), Bytes{150});
  books_.OnFree(At(210));
  books_.OnUnmapped(At(200), Bytes{50});
  books_.OnFree(At(0));
  EXPECT_EQ(books_.NativeIdle(), Bytes{100});
}

TEST_F(DeviceBooksTest, BlocksOlderThanTheBooksAreIgnored) {
  books_.OnSegment(At(100), Bytes{100}, /*is_private=*/false);
  books_.OnFree(At(0));    // below any segment
  books_.OnFree(At(150));  // in one
  EXPECT_EQ(books_.ledger().live(), Bytes{0});
  EXPECT_EQ(books_.NativeIdle(), Bytes{100});
}

}  // namespace
}  // namespace ebbtide
