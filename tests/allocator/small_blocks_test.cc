#include "allocator/small_blocks.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

TEST(SmallBlocksTest, AFreedBlockIsTheNextOfItsSize) {
  void* const first = AllocateSmallBlock(100);
  FreeSmallBlock(first);
  void* const other_size = AllocateSmallBlock(200);
  EXPECT_NE(other_size, first);
  EXPECT_EQ(AllocateSmallBlock(70), first);  // 128 bytes, too
  FreeSmallBlock(first);
  FreeSmallBlock(other_size);
}

TEST(SmallBlocksTest, BlocksAreAlignedLargeEnoughAndApart) {
  std::mt19937 random(1);
  struct Block {
    unsigned char* bytes;
    size_t size;
    unsigned char fill;
  };
  std::vector<Block> live;
  for (int i = 0; i < 20000; ++i) {
    if (live.size() > 200 || (!live.empty() && random() % 2 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      const Block block = live.back();
      for (size_t b = 0; b < block.size; ++b) {
        ASSERT_EQ(block.bytes[b], block.fill);
      }
      FreeSmallBlock(block.bytes);
      live.pop_back();
      continue;
    }
    const size_t size = 1 + random() % (2 * kLargestKept);
    Block block{.bytes = static_cast<unsigned char*>(AllocateSmallBlock(size)),
                .size = size,
                .fill = static_cast<unsigned char>(random())};
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block.bytes) % 64, 0u);
    ASSERT_GE(UsableBytes(block.bytes), size);
    std::memset(block.bytes, block.fill, size);
    live.push_back(block);
  }
  for (const Block& block : live) FreeSmallBlock(block.bytes);
}

TEST(SmallBlocksTest, OfASizeSoManyBytesAreKept) {
  // On a thread of its own, which keeps nothing yet.
  std::thread([] {
    constexpr size_t kBlocks = 3 * kMostKept / 512;
    std::vector<void*> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(AllocateSmallBlock(512));
    }
    const std::set<void*> before(blocks.begin(), blocks.end());
    for (void* block : blocks) FreeSmallBlock(block);
    // The last to be kept comes first; behind the kept ones the order is the
    // system's, which is not looked at.
    for (size_t i = 0; i < kMostKept / 512; ++i) {
      void* const again = AllocateSmallBlock(512);
      EXPECT_EQ(again, blocks[kMostKept / 512 - 1 - i]);
      EXPECT_EQ(before.count(again), 1u);
      free(again);
    }
  }).join();
}

TEST(SmallBlocksTest, AnotherThreadMayFree) {
  // Under the address sanitizer: and what it keeps is freed when it ends.
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(AllocateSmallBlock(64));
  std::thread([&] {
    for (void* block : blocks) FreeSmallBlock(block);
  }).join();
}

}  // namespace
}  // namespace ebbtide
