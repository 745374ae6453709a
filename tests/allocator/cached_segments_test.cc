#include "allocator/cached_segments.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

char memory[1000];

// Segments at multiples of 100, one byte of them for each character: '.' is
// free; others are blocks, whose neighbours have another letter. Lower case may
// go, at a price by letter (a: 1, b: 2 ...), upper case stays; '~' is leaving.
struct Picture : CachedMemory {
  std::vector<Clearable> clearables;
  std::string letters;  // of the clearables
};

CachedSegment SegmentOf(const char* at, const std::string& drawn,
                        Picture* picture) {
  CachedSegment segment = {.size = Bytes{static_cast<int64_t>(drawn.size())}};
  for (size_t i = 0; i < drawn.size();) {
    const size_t end =
        std::min(drawn.find_first_not_of(drawn[i], i), drawn.size());
    const Bytes size{static_cast<int64_t>(end - i)};
    if (drawn[i] != '.') {
      segment.blocks[at + i] = {.size = size, .is_leaving = drawn[i] == '~'};
    }
    if (drawn[i] >= 'a' && drawn[i] <= 'z') {
      picture->clearables.push_back(
          {.block = at + i, .price = 1.0 + drawn[i] - 'a'});
      picture->letters += drawn[i];
    }
    i = end;
  }
  return segment;
}

Picture Draw(const std::vector<std::string>& segments) {
  Picture picture;
  for (size_t i = 0; i < segments.size(); ++i) {
    const char* const at = memory + 100 * i;
    picture.segments[at] = SegmentOf(at, segments[i], &picture);
  }
  return picture;
}

// No segment can be had where nothing is given back.
CacheRequest For(int size, int segment = 1000) {
  return {.size = Bytes{size}, .segment = Bytes{segment}};
}

std::string Cleared(const Picture& picture, const CacheRequest& request) {
  std::string letters;
  for (int i : CheapestToClear(picture, request, picture.clearables)) {
    letters += picture.letters[i];
  }
  return letters;
}

TEST(CachedSegmentsTest, ARequestFindsRoomInAHoleOfItsOwnKind) {
  Picture picture = Draw({"AA..BB...C"});
  CachedSegment& segment = picture.segments.begin()->second;
  EXPECT_TRUE(FindsRoom(picture, For(3)));
  EXPECT_FALSE(FindsRoom(picture, For(4)));
  CacheRequest other = For(3);
  other.stream = memory;
  EXPECT_FALSE(FindsRoom(picture, other));
  other = For(3);
  other.is_small = true;
  EXPECT_FALSE(FindsRoom(picture, other));
  segment.is_private = true;
  EXPECT_FALSE(FindsRoom(picture, For(3)));
}

TEST(CachedSegmentsTest, WhatIsLeavingIsAsGoodAsFree) {
  EXPECT_TRUE(FindsRoom(Draw({"AA.~~~.BB"}), For(5)));
  EXPECT_FALSE(FindsRoom(Draw({"AA.~~~.BB"}), For(6)));
  EXPECT_TRUE(FindsRoom(Draw({"A", "~~~~."}), For(5)));
}

TEST(CachedSegmentsTest, EmptySegmentsMakeRoomForAnother) {
  const Picture picture = Draw({"....", "..~.", "A..."});
  EXPECT_TRUE(FindsRoom(picture, For(6, 8)));
  EXPECT_FALSE(FindsRoom(picture, For(6, 9)));
  CacheRequest request = For(6, 9);
  request.unreserved = Bytes{1};
  EXPECT_TRUE(FindsRoom(picture, request));
}

TEST(CachedSegmentsTest, WhatGoesLiesTogether) {
  // Three bytes are free and two could be for 1, but nowhere at once.
  EXPECT_EQ(Cleared(Draw({"aXaX...Xccc.X"}), For(4)), "c");
  EXPECT_EQ(Cleared(Draw({"zz..bb.cc..zz"}), For(7)), "bc");
  EXPECT_EQ(Cleared(Draw({"zz~~bb~cc~~zz"}), For(7)), "bc");
  EXPECT_EQ(Cleared(Draw({"zzbbccdd"}), For(4)), "bc");
}

TEST(CachedSegmentsTest, NothingGoesInVain) {
  EXPECT_EQ(Cleared(Draw({"aaXbbXcc"}), For(3)), "");
  EXPECT_EQ(Cleared(Draw({"aa..Xbb"}), For(3)), "a");
  EXPECT_EQ(Cleared(Draw({"aa...Xbb"}), For(3)), "");
}

TEST(CachedSegmentsTest, SegmentsAreEmptiedWhereNoHoleCanBe) {
  Picture picture = Draw({"a..b", "c...", "X..a"});
  for (auto& [begin, segment] : picture.segments) segment.is_small = true;
  EXPECT_EQ(Cleared(picture, For(4, 4)), "ab");  // 3 by letter, as c is
  EXPECT_EQ(Cleared(picture, For(8, 8)), "abc");
  EXPECT_EQ(Cleared(picture, For(9, 9)), "");
  picture.clearables[2].price = 2;
  EXPECT_EQ(Cleared(picture, For(4, 4)), "c");
}

TEST(CachedSegmentsTest, ADearHoleIsNotMadeWhereASegmentIsCheap) {
  EXPECT_EQ(Cleared(Draw({"Xzzzz", "..a.."}), For(4, 5)), "a");
  EXPECT_EQ(Cleared(Draw({"Xbbbb", "..z.."}), For(4, 5)), "b");
}

// Every subset, cleared: the least price of one after which there is room.
std::optional<double> Best(const Picture& picture,
                           const CacheRequest& request) {
  std::optional<double> best;
  for (int set = 0; set < 1 << picture.clearables.size(); ++set) {
    Picture rest = picture;
    double price = 0;
    for (size_t i = 0; i < rest.clearables.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      price += rest.clearables[i].price;
      for (auto& [begin, segment] : rest.segments) {
        segment.blocks.erase(
            static_cast<const char*>(rest.clearables[i].block));
      }
    }
    if (!FindsRoom(rest, request)) continue;
    best = std::min(price, best.value_or(price));
  }
  return best;
}

TEST(CachedSegmentsTest, WhatIsClearedMakesRoomWheneverAnythingDoes) {
  std::mt19937 random(7);
  const auto draw = [&](int count) {
    return static_cast<int>(random() % count);
  };
  double sum = 0;
  double least_sum = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> drawn(1 + draw(3));
    for (std::string& segment : drawn) {
      const int length = 4 + draw(5);
      while (static_cast<int>(segment.size()) < length) {
        segment += std::string(1 + draw(2), "...abcX~"[draw(8)]);
      }
    }
    Picture picture = Draw(drawn);
    if (picture.clearables.size() > 10) continue;
    for (auto& [begin, segment] : picture.segments) {
      segment.is_small = draw(2) == 0;
    }
    const CacheRequest request = For(1 + draw(8), 4 + draw(12));
    const auto cleared = CheapestToClear(picture, request, picture.clearables);
    const std::optional<double> best = Best(picture, request);
    if (!best || *best == 0) {
      EXPECT_THAT(cleared, IsEmpty());
      continue;
    }
    double price = 0;
    for (int i : cleared) {
      price += picture.clearables[i].price;
      for (auto& [begin, segment] : picture.segments) {
        segment.blocks.erase(
            static_cast<const char*>(picture.clearables[i].block));
      }
    }
    EXPECT_TRUE(FindsRoom(picture, request)) << round;
    EXPECT_GE(price, *best);
    if (!request.is_small) sum += price, least_sum += *best;
  }
  // Which segments are emptied is not always the best choice.
  EXPECT_LE(sum, 1.02 * least_sum);
  EXPECT_GT(least_sum, 1000);
}

}  // namespace
}  // namespace ebbtide
