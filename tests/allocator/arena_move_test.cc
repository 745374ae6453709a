// Pages that get another address, instead of new ones.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "allocator/arena.h"
#include "gtest/gtest.h"
#include "tests/allocator/arena_check.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

// Blocks that do not touch: an inaccessible page lies between.
void* MapApart(size_t size) {
  char* const address =
      static_cast<char*>(ArenaSystem::Real().map(size + kPageSize));
  mprotect(address, kPageSize, PROT_NONE);
  return address + kPageSize;
}
const ArenaSystem kApart = {MapApart, ArenaSystem::Real().unmap,
                            ArenaSystem::Real().move};

// Live blocks, one of each size; every page is written.
std::vector<char*> AllocateAll(Arena& arena, const std::vector<Bytes>& sizes) {
  std::vector<char*> blocks;
  for (Bytes size : sizes) {
    blocks.push_back(static_cast<char*>(arena.Allocate(size)));
    std::memset(blocks.back(), 1, Count(size));
  }
  return blocks;
}

bool AllResident(const char* block, Bytes size) {
  for (int64_t at = 0; at < Count(size); at += kPageSize) {
    if (!Resident(block + at)) return false;
  }
  return true;
}

TEST(ArenaMoveTest, PagesOfSeveralBlocksMakeALargerOne) {
  Arena arena(MiB(6), Counted(kApart));
  const std::vector<char*> parts =
      AllocateAll(arena, {MiB(1), MiB(2), MiB(1), MiB(2)});
  for (int i : {0, 1, 3}) arena.Free(parts[i]);
  char* block = static_cast<char*>(arena.Allocate(MiB(4)));
  EXPECT_TRUE(AllResident(block, MiB(4)));
  EXPECT_EQ(calls.moves, 2);
  EXPECT_EQ(arena.Stats().mapped, MiB(6));
  EXPECT_EQ(arena.Stats().retained, MiB(1));
  EXPECT_EQ(arena.Stats().high_water, MiB(6));
  EXPECT_EQ(calls.unmaps, 0);
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  EXPECT_EQ(arena.Allocate(MiB(1)), parts[0]);
  // The blocks in use meanwhile are unchanged.
  EXPECT_EQ(std::count(parts[2], parts[2] + (1 << 20), 1), 1 << 20);
  for (void* each : {block, parts[0], parts[2]}) arena.Free(each);
}

TEST(ArenaMoveTest, WhatWasMovedTogetherMovesInItsPieces) {
  Arena arena(MiB(4), Counted(kApart));
  const std::vector<char*> first = AllocateAll(arena, {MiB(1), MiB(1), MiB(2)});
  for (int i : {0, 1}) arena.Free(first[i]);
  char* two = static_cast<char*>(arena.Allocate(MiB(2)));
  EXPECT_EQ(calls.moves, 2);
  arena.Free(two);
  arena.Free(first[2]);
  char* four = static_cast<char*>(arena.Allocate(MiB(4)));
  EXPECT_TRUE(AllResident(four, MiB(4)));
  EXPECT_EQ(calls.moves, 2 + 1 + 2);
  std::memset(four, 2, 4 << 20);
  arena.Free(four);
  EXPECT_TRUE(ArenaCheck::Holds(arena));
}

TEST(ArenaMoveTest, SmallPiecesAreNotMovedButGivenBack) {
  Arena arena(MiB(2), Counted(kApart));
  const std::vector<char*> parts =
      AllocateAll(arena, {KiB(1024), KiB(64), KiB(128), KiB(832)});
  for (int i : {0, 2}) arena.Free(parts[i]);
  char* block = static_cast<char*>(arena.Allocate(KiB(1152)));
  EXPECT_TRUE(AllResident(block, KiB(1024)));
  EXPECT_FALSE(Resident(block + (1 << 20)));
  EXPECT_EQ(calls.moves, 1);
  EXPECT_EQ(calls.unmaps, 1);
  EXPECT_EQ(arena.Stats().mapped, MiB(2));
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  for (void* each : {block, parts[1], parts[3]}) arena.Free(each);
}

TEST(ArenaMoveTest, WhereThereAreTooFewPagesTheRestIsNew) {
  Arena arena(MiB(4));
  const std::vector<char*> parts = AllocateAll(arena, {MiB(1), MiB(1)});
  arena.Free(parts[0]);
  char* block = static_cast<char*>(arena.Allocate(MiB(4)));
  EXPECT_TRUE(AllResident(block, MiB(1)));
  EXPECT_FALSE(Resident(block + (1 << 20)));
  EXPECT_EQ(arena.Stats().mapped, MiB(5));  // live, above the cap
  std::memset(block, 1, 4 << 20);
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(block);
  arena.Free(parts[1]);
}

int moves_left = 0;
bool MoveSome(void* from, size_t size, void* to) {
  return moves_left-- > 0 && ArenaSystem::Real().move(from, size, to);
}
const ArenaSystem kFewMoves = {MapApart, ArenaSystem::Real().unmap, MoveSome};

TEST(ArenaMoveTest, PagesThatCannotBeMovedGoBackForNewOnes) {
  moves_left = 1;
  Arena arena(MiB(4), Counted(kFewMoves));
  const std::vector<char*> parts = AllocateAll(arena, {MiB(1), MiB(1), MiB(2)});
  arena.Free(parts[0]);
  arena.Free(parts[1]);
  char* block = static_cast<char*>(arena.Allocate(MiB(2)));
  std::memset(block, 1, 2 << 20);
  EXPECT_EQ(calls.moves, 2);
  EXPECT_EQ(calls.unmaps, 1);
  EXPECT_EQ(arena.Stats().mapped, MiB(4));
  EXPECT_EQ(arena.Stats().retained, Bytes{0});
  EXPECT_TRUE(ArenaCheck::Holds(arena));
  arena.Free(block);
  arena.Free(parts[2]);
}

TEST(ArenaMoveTest, ARefusedMoveLeavesBothPlacesMapped) {
  constexpr size_t kSize = 4 << 20;
  char* from = static_cast<char*>(ArenaSystem::Real().map(kSize));
  char* to = static_cast<char*>(ArenaSystem::Real().map(kSize));
  std::memset(from, 1, kSize);
  // Two mappings: Linux before 6.17 does not move them at once.
  mprotect(from + kSize / 2, kSize / 2, PROT_READ);
  const bool moved = ArenaSystem::Real().move(from, kSize, to);
  EXPECT_EQ(to[0], moved ? 1 : 0);
  if (!moved) {
    EXPECT_EQ(std::count(from, from + kSize, 1), kSize);
    std::memset(to, 2, kSize);
  }
  EXPECT_TRUE(ArenaSystem::Real().unmap(from, kSize));
  EXPECT_TRUE(ArenaSystem::Real().unmap(to, kSize));
}

TEST(ArenaMoveTest, PagesAreNotMovedWithoutEnd) {
  std::mt19937 rng(3);
  Arena arena(MiB(64), Counted());
  std::vector<void*> held;
  for (int i = 0; i < 20000; ++i) {
    if (held.size() > 60) {
      std::swap(held[rng() % held.size()], held.back());
      arena.Free(held.back());
      held.pop_back();
    }
    held.push_back(arena.Allocate(KiB(64 + 4 * (rng() % 400))));
  }
  for (void* each : held) arena.Free(each);
  std::ifstream maps("/proc/self/maps");
  const auto lines = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  EXPECT_GT(calls.moves, 1000);
  EXPECT_LT(lines, 1000);
}

}  // namespace
}  // namespace ebbtide
