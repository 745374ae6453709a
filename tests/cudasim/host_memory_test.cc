#include "tests/cudasim/host_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace cudasim {
namespace {

TEST(HostMemoryTest, AllocatedMemoryIsPinnedToItsEndAndPoisoned) {
  HostMemory host;
  void* block = nullptr;
  ASSERT_EQ(host.Allocate(5000, 0xab, &block), Error::kNone);
  auto* const bytes = static_cast<uint8_t*>(block);
  EXPECT_EQ(bytes[4999], 0xab);
  EXPECT_TRUE(host.IsPinned(bytes + 4999));
  EXPECT_FALSE(host.IsPinned(bytes + 8192));
  EXPECT_EQ(host.bytes(), 8192);
  ASSERT_EQ(host.Free(block), Error::kNone);
  EXPECT_FALSE(host.IsPinned(bytes));
  EXPECT_EQ(host.bytes(), 0);
  EXPECT_EQ(host.peak(), 8192);
}

TEST(HostMemoryTest, RegisteredMemoryStaysTheProgramsOwn) {
  HostMemory host;
  std::vector<char> mine(100);
  EXPECT_EQ(host.Register(mine.data(), mine.size()), Error::kNone);
  EXPECT_TRUE(host.IsPinned(&mine[99]));
  EXPECT_EQ(host.Register(mine.data(), mine.size()),
            Error::kHostMemoryAlreadyRegistered);
  EXPECT_EQ(host.Free(mine.data()), Error::kInvalidValue);
  EXPECT_EQ(host.Unregister(mine.data()), Error::kNone);
  EXPECT_EQ(host.Unregister(mine.data()), Error::kHostMemoryNotRegistered);
}

}  // namespace
}  // namespace cudasim
