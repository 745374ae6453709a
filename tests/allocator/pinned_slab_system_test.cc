// The calls of the slab to the real system.
#include <cstdio>
#include <cstring>

#include "allocator/pinned_slab.h"
#include "gtest/gtest.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

// The system says for every mapping which policy it has.
TEST(SlabSystemTest, TheSystemTakesTheNode) {
  constexpr size_t kSize = 1 << 20;
  char* const memory = SlabSystem::Real().reserve(kSize);
  ASSERT_NE(memory, nullptr);
  SlabSystem::Real().prefer_node(memory, kSize, 0);
  SlabSystem::Real().prefer_node(memory, kSize, 100'000);  // no such node
  char line[4096];
  char start[32];
  std::snprintf(start, sizeof(start), "%lx ", reinterpret_cast<long>(memory));
  bool preferred = false;
  FILE* const maps = std::fopen("/proc/self/numa_maps", "r");
  ASSERT_NE(maps, nullptr) << "a kernel without NUMA shows no policies";
  while (std::fgets(line, sizeof(line), maps) != nullptr) {
    if (std::strncmp(line, start, std::strlen(start)) == 0) {
      preferred = std::strstr(line, "prefer") != nullptr;
    }
  }
  std::fclose(maps);
  EXPECT_TRUE(preferred);
  SlabSystem::Real().release(memory, kSize);
}

TEST(SlabSystemTest, CommittedMemoryIsResidentAndZeroAndGoesAgain) {
  const SlabSystem& real = SlabSystem::Real();
  char* const memory = real.reserve(1 << 20);
  ASSERT_NE(memory, nullptr);
  EXPECT_FALSE(Resident(memory));
  ASSERT_TRUE(real.commit(memory, 64 << 10));
  EXPECT_TRUE(Resident(memory));
  EXPECT_TRUE(Resident(memory + (60 << 10)));
  EXPECT_FALSE(Resident(memory + (64 << 10)));
  EXPECT_EQ(memory[5], 0);
  memory[5] = 1;
  real.decommit(memory, 64 << 10);
  EXPECT_FALSE(Resident(memory));
  ASSERT_TRUE(real.commit(memory, 64 << 10));
  EXPECT_EQ(memory[5], 0);
  real.release(memory, 1 << 20);
}

}  // namespace
}  // namespace ebbtide
