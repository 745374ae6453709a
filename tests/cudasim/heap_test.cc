#include "tests/cudasim/heap.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cudasim {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

HeapOptions Small(size_t capacity) {
  return {.devices = 2, .capacity = capacity, .address_space = size_t{1} << 30};
}

TEST(HeapTest, CountsWholePagesAgainstEachDevicesCapacity) {
  Heap heap(Small(6 * kMiB));
  void* a = nullptr;
  void* b = nullptr;
  void* c = nullptr;
  EXPECT_EQ(heap.Allocate(0, 3 * kMiB, &a), Error::kNone);
  EXPECT_EQ(heap.used(0), 4 * kMiB);
  EXPECT_EQ(heap.Allocate(0, 3 * kMiB, &b), Error::kMemoryAllocation);
  EXPECT_EQ(heap.Allocate(1, 3 * kMiB, &b), Error::kNone);
  EXPECT_EQ(heap.Allocate(0, 1, &c), Error::kNone);
  EXPECT_EQ(heap.DeviceOf(b), 1);
  EXPECT_EQ(heap.Free(a), Error::kNone);
  EXPECT_EQ(heap.used(0), 2 * kMiB);
  EXPECT_EQ(heap.total(), 6 * kMiB);
  EXPECT_EQ(heap.peak(), 10 * kMiB);
  EXPECT_EQ(heap.live(), 2);
}

TEST(HeapTest, BytesAreCoveredFromAllocationToFree) {
  Heap heap(Small(8 * kMiB));
  void* block = nullptr;
  ASSERT_EQ(heap.Allocate(0, 2 * kMiB, &block), Error::kNone);
  EXPECT_TRUE(heap.Covers(block, 2 * kMiB));
  EXPECT_FALSE(heap.Covers(block, 2 * kMiB + 1));
  EXPECT_EQ(heap.BeginOf(static_cast<char*>(block) + kMiB), block);
  int local = 0;
  EXPECT_FALSE(heap.IsDevice(&local));
  EXPECT_EQ(heap.Bytes(&local), reinterpret_cast<std::byte*>(&local));
  EXPECT_EQ(heap.Free(block), Error::kNone);
  EXPECT_FALSE(heap.Covers(block, 1));
  EXPECT_EQ(heap.BeginOf(block), nullptr);
  EXPECT_TRUE(heap.IsDevice(block));
  EXPECT_EQ(heap.Free(block), Error::kInvalidValue);
}

TEST(HeapTest, FreshMemoryIsPoisonedEachTime) {
  HeapOptions options = Small(2 * kMiB);
  options.poison = 0xff;
  Heap heap(options);
  for (int i = 0; i < 2; ++i) {
    void* block = nullptr;
    ASSERT_EQ(heap.Allocate(0, kMiB, &block), Error::kNone);
    EXPECT_EQ(heap.Bytes(block)[kMiB - 1], std::byte{0xff});
    memset(heap.Bytes(block), 1, kMiB);
    ASSERT_EQ(heap.Free(block), Error::kNone);
  }
}

TEST(HeapTest, PoisonComesOnlyWhereAHandleIsMappedNowhereElse) {
  HeapOptions options = Small(8 * kMiB);
  options.poison = 0xff;
  Heap heap(options);
  void* space = nullptr;
  uint64_t handle = 0;
  ASSERT_EQ(heap.Reserve(8 * kMiB, &space), Error::kNone);
  ASSERT_EQ(heap.CreateHandle(0, 2 * kMiB, &handle), Error::kNone);
  char* const first = static_cast<char*>(space);
  char* const second = first + 4 * kMiB;
  ASSERT_EQ(heap.Map(first, 2 * kMiB, 0, handle), Error::kNone);
  EXPECT_EQ(*heap.Bytes(first), std::byte{0xff});
  *heap.Bytes(first) = std::byte{1};
  ASSERT_EQ(heap.Map(second, 2 * kMiB, 0, handle), Error::kNone);
  EXPECT_EQ(*heap.Bytes(second), std::byte{1});
}

TEST(HeapDeathTest, AHostThatDereferencesADeviceAddressDies) {
  Heap heap(Small(2 * kMiB));
  void* block = nullptr;
  ASSERT_EQ(heap.Allocate(0, kMiB, &block), Error::kNone);
  EXPECT_DEATH(*static_cast<volatile char*>(block) = 1, "");
}

TEST(HeapTest, AHandleKeepsItsBytesWhereverItIsMapped) {
  Heap heap(Small(8 * kMiB));
  void* space = nullptr;
  uint64_t handle = 0;
  ASSERT_EQ(heap.Reserve(8 * kMiB, &space), Error::kNone);
  EXPECT_EQ(heap.used(0), 0);
  ASSERT_EQ(heap.CreateHandle(0, 2 * kMiB, &handle), Error::kNone);
  EXPECT_EQ(heap.used(0), 2 * kMiB);
  char* const first = static_cast<char*>(space);
  char* const second = first + 4 * kMiB;
  ASSERT_EQ(heap.Map(first, 2 * kMiB, 0, handle), Error::kNone);
  EXPECT_EQ(heap.Map(first, 2 * kMiB, 0, handle), Error::kInvalidValue);
  EXPECT_EQ(heap.Map(second, 3 * kMiB, 0, handle), Error::kInvalidValue);
  heap.Bytes(first)[7] = std::byte{42};
  ASSERT_EQ(heap.Map(second, 2 * kMiB, 0, handle), Error::kNone);
  EXPECT_EQ(heap.Bytes(second)[7], std::byte{42});
  EXPECT_EQ(heap.RetainHandle(second + kMiB), handle);
  EXPECT_EQ(heap.Unmap(first, 2 * kMiB), Error::kNone);
  EXPECT_FALSE(heap.Covers(first, 1));
  EXPECT_EQ(heap.Unmap(second, 2 * kMiB), Error::kNone);
  EXPECT_EQ(heap.ReleaseHandle(handle), Error::kNone);
  EXPECT_EQ(heap.used(0), 2 * kMiB);  // still retained
  EXPECT_EQ(heap.ReleaseHandle(handle), Error::kNone);
  EXPECT_EQ(heap.used(0), 0);
  EXPECT_EQ(heap.ReleaseHandle(handle), Error::kInvalidValue);
  EXPECT_EQ(heap.EndReservation(space), Error::kNone);
}

TEST(HeapTest, NeighbouringMappingsCountAsOne) {
  Heap heap(Small(8 * kMiB));
  void* space = nullptr;
  ASSERT_EQ(heap.Reserve(8 * kMiB, &space), Error::kNone);
  for (size_t i = 0; i < 2; ++i) {
    uint64_t handle = 0;
    ASSERT_EQ(heap.CreateHandle(0, 2 * kMiB, &handle), Error::kNone);
    ASSERT_EQ(
        heap.Map(static_cast<char*>(space) + i * 2 * kMiB, 2 * kMiB, 0, handle),
        Error::kNone);
  }
  EXPECT_TRUE(heap.Covers(space, 4 * kMiB));
  EXPECT_FALSE(heap.Covers(space, 5 * kMiB));
}

}  // namespace
}  // namespace cudasim
