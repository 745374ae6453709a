#include "planner/place_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace ebbtide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kPage = 8;

Buffer At(int64_t size, int64_t begin, int64_t end) {
  return {.size = Bytes{size}, .live = {.begin = {begin}, .end = {end}}};
}

std::vector<Bytes> NoHints(const PlaceProblem& problem) {
  return std::vector<Bytes>(problem.buffers.size());
}

TEST(PlaceInPagesTest, BufferLiesAtItsHintOrInTheSmallestHole) {
  const PlaceProblem problem = {{At(8, 0, 9), At(4, 1, 9), At(4, 2, 9)}};
  const auto spots =
      PlaceInPages(problem, std::vector<Bytes>{Bytes{8}, Bytes{8}, Bytes{20}},
                   Bytes{kPage}, 3);
  ASSERT_TRUE(spots.has_value());
  EXPECT_EQ((*spots)[0].offset, Bytes{8}) << "its hint";
  EXPECT_EQ((*spots)[1].offset, Bytes{0}) << "both holes are as small";
  EXPECT_EQ((*spots)[2].offset, Bytes{20}) << "its hint";
}

TEST(PlaceInPagesTest, BufferThatNoHoleHasRoomForIsScattered) {
  const PlaceProblem problem = {
      {At(kPage, 0, 1), At(kPage, 0, 9), At(kPage, 0, 1), At(2 * kPage, 1, 9)}};
  const auto spots = PlaceInPages(
      problem,
      std::vector<Bytes>{Bytes{0}, Bytes{kPage}, Bytes{2 * kPage}, Bytes{0}},
      Bytes{kPage}, 3);
  ASSERT_TRUE(spots.has_value());
  EXPECT_THAT((*spots)[1].pages, IsEmpty());
  EXPECT_THAT((*spots)[3].pages, ElementsAre(0, 2));
}

TEST(PlaceInPagesTest, SmallBufferIsNotScattered) {
  const PlaceProblem problem = {{At(4, 0, 9), At(6, 1, 9)}};
  EXPECT_FALSE(PlaceInPages(problem, NoHints(problem), Bytes{kPage}, 1));
  EXPECT_TRUE(PlaceInPages(problem, NoHints(problem), Bytes{kPage}, 2));
}

TEST(PlaceInPagesTest, PlaceOfABufferIsLentInItsGap) {
  PlaceProblem problem = {{At(kPage, 0, 9), At(kPage, 3, 5), At(kPage, 4, 7)}};
  problem.buffers[0].gaps = {{.begin = {2}, .end = {6}}};
  const auto spots = PlaceInPages(problem, NoHints(problem), Bytes{kPage}, 2);
  ASSERT_TRUE(spots.has_value());
  EXPECT_EQ((*spots)[1].offset, Bytes{0}) << "over before the gap is";
  EXPECT_EQ((*spots)[2].offset, Bytes{kPage});
  problem.buffers[1].live.end[0] = 7;
  EXPECT_FALSE(PlaceInPages(problem, NoHints(problem), Bytes{kPage}, 2));
}

// At every instant.
void ExpectApart(const PlaceProblem& problem,
                 const std::vector<PageSpot>& spots, int64_t pages) {
  for (int64_t now = 0; now < 40; ++now) {
    std::map<int64_t, int> users;  // by byte
    for (size_t i = 0; i < spots.size(); ++i) {
      const Buffer& b = problem.buffers[i];
      const bool is_away = !b.gaps.empty() && b.gaps[0].begin[0] <= now &&
                           now < b.gaps[0].end[0];
      if (now < b.live.begin[0] || b.live.end[0] <= now || is_away) continue;
      for (int64_t k = 0; k < Count(b.size); ++k) {
        const auto& at = spots[i].pages;
        ++users[at.empty() ? Count(spots[i].offset) + k
                           : at[k / kPage] * kPage + k % kPage];
      }
    }
    for (const auto& [byte, count] : users) {
      EXPECT_EQ(count, 1) << "byte " << byte << ", instant " << now;
      EXPECT_LT(byte, pages * kPage);
    }
  }
}

TEST(PlaceInPagesTest, BuffersThatAreThereAtOnceLieApart) {
  for (int seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    PlaceProblem problem;
    for (int i = 0; i < 30; ++i) {
      const int64_t begin = random() % 39;
      Buffer buffer =
          At(1 + random() % 30, begin, begin + 1 + random() % (40 - begin));
      if (random() % 8 == 0) {
        buffer.live = {.begin = {0}, .end = {40}};
        buffer.gaps = {{.begin = {begin}, .end = {begin + 1}}};
        if (begin == 0) buffer.gaps = {{.begin = {1}, .end = {30}}};
      }
      problem.buffers.push_back(buffer);
    }
    int64_t pages = 1;
    auto spots = PlaceInPages(problem, NoHints(problem), Bytes{kPage}, pages);
    while (!spots) {
      spots = PlaceInPages(problem, NoHints(problem), Bytes{kPage}, ++pages);
    }
    ExpectApart(problem, *spots, pages);
  }
}

TEST(PlaceInPagesTest, WholePagesTakeNoMoreThanAreInUseAtOnce) {
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    PlaceProblem problem;
    std::vector<int64_t> in_use(40);
    for (int i = 0; i < 30; ++i) {
      const int64_t begin = random() % 39;
      const int64_t end = begin + 1 + random() % (40 - begin);
      const int64_t pages = 1 + random() % 6;
      problem.buffers.push_back(At(pages * kPage, begin, end));
      for (int64_t now = begin; now < end; ++now) in_use[now] += pages;
    }
    const int64_t most = *std::max_element(in_use.begin(), in_use.end());
    const auto hints = NoHints(problem);
    EXPECT_TRUE(PlaceInPages(problem, hints, Bytes{kPage}, most)) << seed;
    EXPECT_FALSE(PlaceInPages(problem, hints, Bytes{kPage}, most - 1)) << seed;
  }
}

}  // namespace
}  // namespace ebbtide
