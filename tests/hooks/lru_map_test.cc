#include "hooks/lru_map.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::Pointee;

std::vector<uint64_t> Keys(const LruMap<std::string>& map) {
  std::vector<uint64_t> keys;
  for (const auto& [key, value] : map.entries()) keys.push_back(key);
  return keys;
}

TEST(LruMapTest, TheOneUsedLeastRecentlyMakesRoom) {
  LruMap<std::string> map(3);
  for (uint64_t key : {1, 2, 3}) map.Use(key) = std::to_string(key);
  map.Use(1);
  map.Use(4);
  EXPECT_THAT(Keys(map), ElementsAre(4, 1, 3));
  EXPECT_THAT(map.Find(2), IsNull());
  EXPECT_THAT(map.Find(1), Pointee(std::string("1")));
}

TEST(LruMapTest, LookingIsNoUse) {
  LruMap<std::string> map(2);
  map.Use(1);
  map.Use(2);
  EXPECT_THAT(map.Find(1), Pointee(std::string()));
  map.Use(3);
  EXPECT_THAT(Keys(map), ElementsAre(3, 2));
}

TEST(LruMapTest, WhatComesBackBeginsAnew) {
  LruMap<std::string> map(1);
  map.Use(1) = "known";
  map.Use(2);
  EXPECT_EQ(map.Use(1), "");
  EXPECT_EQ(map.size(), 1u);
}

TEST(LruMapTest, ASmallerBoundHoldsFromTheNextKeyOn) {
  LruMap<std::string> map(4);
  for (uint64_t key : {1, 2, 3, 4}) map.Use(key);
  map.SetBound(2);
  map.Use(3);
  EXPECT_THAT(Keys(map), ElementsAre(3, 4, 2, 1));
  map.Use(5);
  EXPECT_THAT(Keys(map), ElementsAre(5, 3));
}

TEST(LruMapTest, ReferencesHoldWhileOthersComeAndGo) {
  LruMap<std::string> map(64);
  std::string& first = map.Use(0);
  for (uint64_t key = 1; key < 64; ++key) map.Use(key);
  first = "still here";
  EXPECT_THAT(map.Find(0), Pointee(std::string("still here")));
}

}  // namespace
}  // namespace ebbtide
