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

TEST_F(DeviceBooksTest, PagesAreReservedAsSegmentsAre) {
  books_.OnSegment(At(0), Bytes{100}, /*is_private=*/false);
  books_.OnMapped(Bytes{50});
  EXPECT_EQ(books_.reserved(), Bytes{150});
  books_.OnUnmapped(Bytes{50});
  EXPECT_EQ(books_.reserved(), Bytes{100});
}

}  // namespace
}  // namespace ebbtide
