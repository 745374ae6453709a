#include "planner/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "planner/place_bound.h"
#include "planner/place_greedy.h"
#include "planner/place_validate.h"
#include "tests/planner/place_problems.h"

namespace ebbtide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Buffer Make(int64_t size, int64_t begin, int64_t end) {
  return {
      .size = Bytes{size}, .live = {{begin}, {end}}, .gaps = {}, .offset = {}};
}

PlaceProblem Read(const std::string& name) {
  std::ifstream file(absl::StrCat(EBBTIDE_TEST_DATA, "/traces/", name));
  EXPECT_TRUE(file.is_open()) << name;
  PlaceProblem problem;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> f = absl::StrSplit(line, ',');
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size = 0;
    EXPECT_TRUE(absl::SimpleAtoi(f[1], &begin) &&
                absl::SimpleAtoi(f[2], &end) && absl::SimpleAtoi(f[3], &size));
    problem.buffers.push_back(Make(size, begin, end));
  }
  return problem;
}

std::string Refusal(const PlaceProblem& problem, std::vector<Bytes> offsets) {
  const Bytes height = HeightOf(problem, offsets);
  return std::string(
      ValidatePlacement(problem, {std::move(offsets), height}).message());
}

TEST(PlaceTest, BuffersThatTouchInTimeShareAnOffset) {
  const auto placed = Place({{Make(4, 0, 3), Make(4, 3, 5)}});
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(placed->placement.height, Bytes{4});
}

TEST(PlaceTest, WhoIsSwappedOutMakesRoom) {
  PlaceProblem problem{{Make(4, 0, 9), Make(4, 3, 5)}};
  problem.buffers[0].gaps = {{{3}, {5}}};
  EXPECT_EQ(Place(problem)->placement.height, Bytes{4});
  problem.buffers[0].gaps = {{{4}, {5}}};
  EXPECT_EQ(Place(problem)->placement.height, Bytes{8});
}

TEST(PlaceTest, StreamsThatNobodyOrdersDoNotShare) {
  PlaceProblem problem{{Make(4, 0, 1), Make(3, 0, 1)}};
  problem.buffers[0].live = {{0, 0}, {2, 0}};
  problem.buffers[1].live = {{0, 0}, {0, 2}};
  EXPECT_EQ(Place(problem)->placement.height, Bytes{7});
  EXPECT_EQ(Place(problem)->bound.bytes, Bytes{7});
  // The second stream has waited for the end of the first buffer.
  problem.buffers[1].live = {{2, 0}, {2, 2}};
  EXPECT_EQ(Place(problem)->placement.height, Bytes{4});
}

TEST(PlaceTest, FixedBuffersLieWhereTheyMust) {
  PlaceProblem problem{{Make(4, 0, 3), Make(2, 0, 3), Make(2, 0, 3)}};
  problem.buffers[0].offset = Bytes{2};
  const auto placed = Place(problem);
  EXPECT_EQ(placed->placement.offsets[0], Bytes{2});
  EXPECT_EQ(placed->placement.height, Bytes{8});
  problem.buffers[1].offset = Bytes{5};
  EXPECT_THAT(std::string(Place(problem).status().message()),
              HasSubstr("buffers 0 and 1: expected fixed offsets"));
}

TEST(PlaceTest, BadProblemsAreNamed) {
  const auto refusal = [](const Buffer& b) {
    return std::string(CheckPlaceProblem({{Make(1, 0, 1), b}}).message());
  };
  Buffer b = Make(0, 0, 1);
  EXPECT_THAT(refusal(b), HasSubstr("buffer 1: expected a size"));
  b = Make(1, 3, 3);
  EXPECT_THAT(refusal(b), HasSubstr("ends after it begins"));
  b = Make(1, 0, 4);
  b.gaps = {{{2}, {5}}};
  EXPECT_THAT(refusal(b), HasSubstr("within the lifetime"));
  b.gaps = {{{0}, {4}}};
  EXPECT_THAT(refusal(b), HasSubstr("beside its gaps"));
  b = Make(1, 0, 4);
  b.live = {{0, 0}, {1, 1}};
  EXPECT_THAT(refusal(b), HasSubstr("expected 1 clocks"));
  b = Make(1, 0, 4);
  b.alignment = Bytes{0};
  EXPECT_THAT(refusal(b), HasSubstr("expected an alignment"));
  b = Make(1, 0, 4);
  b.alignment = Bytes{4};
  b.offset = Bytes{6};
  EXPECT_THAT(refusal(b), HasSubstr("multiple of 4, got 6"));
  b = Make((int64_t{1} << 60) - 1, 0, 4);
  EXPECT_THAT(refusal(b), HasSubstr("exceed 2^60"));
}

TEST(PlaceValidateTest, EachRuleIsChecked) {
  PlaceProblem problem{{Make(4, 0, 3), Make(4, 2, 5)}};
  EXPECT_EQ(Refusal(problem, {Bytes{0}, Bytes{4}}), "");
  EXPECT_THAT(Refusal(problem, {Bytes{0}, Bytes{3}}),
              HasSubstr("buffers 0 and 1 are there at once, both at 3"));
  EXPECT_THAT(Refusal(problem, {Bytes{0}}), HasSubstr("1 offsets for 2"));
  EXPECT_THAT(Refusal(problem, {Bytes{-1}, Bytes{4}}), HasSubstr("at -1"));
  EXPECT_FALSE(
      ValidatePlacement(problem, {{Bytes{0}, Bytes{4}}, Bytes{9}}).ok());
  problem.buffers[1].alignment = Bytes{3};
  EXPECT_THAT(Refusal(problem, {Bytes{0}, Bytes{4}}), HasSubstr("multiple"));
  problem.buffers[1].offset = Bytes{6};
  EXPECT_THAT(Refusal(problem, {Bytes{0}, Bytes{9}}), HasSubstr("fixed at 6"));
}

TEST(PlaceBoundTest, NamesTheInstantAndWhoIsLive) {
  const PlaceBound bound =
      LowerBound({{Make(4, 0, 3), Make(3, 2, 5), Make(2, 4, 6)}});
  EXPECT_EQ(bound.bytes, Bytes{7});
  EXPECT_EQ(bound.instant, 2);
  EXPECT_THAT(bound.live, ElementsAre(0, 1));
}

// The heaviest set of buffers of which each two meet, by trying all sets.
Bytes HeaviestSet(const PlaceProblem& problem) {
  const auto& buffers = problem.buffers;
  Bytes best{};
  for (uint32_t set = 0; set < (1u << buffers.size()); ++set) {
    Bytes sum{};
    bool meet = true;
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!(set >> i & 1)) continue;
      sum += buffers[i].size;
      for (size_t j = 0; j < i; ++j) {
        if (set >> j & 1) meet = meet && TestMeet(buffers[i], buffers[j]);
      }
    }
    if (meet) best = std::max(best, sum);
  }
  return best;
}

TEST(PlaceBoundTest, IsTheHeaviestSetThatMeetsAndTheWitnessProvesIt) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const int streams = 1 + static_cast<int>(seed % 3);
    const PlaceProblem problem = RandomPlaceProblem(
        seed, {.most = 8, .streams = streams, .gaps = false});
    const PlaceBound bound = LowerBound(problem);
    ASSERT_EQ(bound.bytes, HeaviestSet(problem)) << seed;
    Bytes sum{};
    for (int a : bound.live) {
      sum += problem.buffers[a].size;
      for (int b : bound.live) {
        ASSERT_TRUE(TestMeet(problem.buffers[a], problem.buffers[b])) << seed;
      }
    }
    EXPECT_EQ(sum, bound.bytes) << seed;
  }
}

TEST(PlaceTest, SmallProblemsAreSolvedExactly) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const PlaceKind kind = {.most = 6,
                            .streams = 1 + static_cast<int>(seed % 4 == 3),
                            .gaps = seed % 4 == 1,
                            .alignments = seed % 4 == 2};
    const PlaceProblem problem = RandomPlaceProblem(seed, kind);
    const auto placed = Place(problem);
    ASSERT_TRUE(placed.ok()) << placed.status();
    ASSERT_TRUE(ValidatePlacement(problem, placed->placement).ok()) << seed;
    EXPECT_EQ(Count(placed->placement.height), LeastHeight(problem)) << seed;
    EXPECT_EQ(placed->least, placed->placement.height) << seed;
  }
}

// Fixed offsets are those of some placement, so that there is one.
TEST(PlaceTest, FixedOffsetsOfThePlacementAreKeptAndCostNothing) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    PlaceProblem problem = RandomPlaceProblem(
        seed, {.most = 7, .gaps = true, .alignments = seed % 2 == 0});
    const auto free = Place(problem);
    ASSERT_TRUE(free.ok());
    for (size_t id = 0; id < problem.buffers.size(); id += 2) {
      problem.buffers[id].offset = free->placement.offsets[id];
    }
    const auto placed = Place(problem);
    ASSERT_TRUE(placed.ok()) << placed.status();
    ASSERT_TRUE(ValidatePlacement(problem, placed->placement).ok()) << seed;
    EXPECT_EQ(placed->placement.height, free->placement.height) << seed;
  }
}

// First fit without an index: each address in turn, each placed buffer.
Placement FirstFit(const PlaceProblem& problem, const std::vector<int>& order) {
  Placement placement{std::vector<Bytes>(problem.buffers.size()), {}};
  std::vector<int> placed;
  for (int id : order) {
    const Buffer& b = problem.buffers[id];
    int64_t at = 0;
    const auto taken = [&](int other) {
      const Buffer& o = problem.buffers[other];
      const int64_t begin = Count(placement.offsets[other]);
      return TestMeet(b, o) && at < begin + Count(o.size) &&
             begin < at + Count(b.size);
    };
    while (at % Count(b.alignment) != 0 ||
           std::any_of(placed.begin(), placed.end(), taken)) {
      ++at;
    }
    placement.offsets[id] = Bytes{at};
    placed.push_back(id);
  }
  placement.height = HeightOf(problem, placement.offsets);
  return placement;
}

TEST(PlaceGreedyTest, EachOrderIsFirstFitAndThePortfolioIsTheBestOfThem) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    // 400 instants: the index has windows of both widths.
    const PlaceProblem problem =
        RandomPlaceProblem(seed, {.most = 300,
                                  .span = 400,
                                  .streams = 1 + static_cast<int>(seed % 2),
                                  .gaps = true,
                                  .alignments = seed % 3 == 0});
    const auto placed = Place(problem, {.nodes = 0});
    ASSERT_TRUE(placed.ok());
    GreedyPlacer placer(problem);
    for (PlaceOrder order : kPlaceOrders) {
      const std::vector<int> ids = InOrder(problem, order);
      const Placement found = placer.Place(ids);
      const Placement slow = FirstFit(problem, ids);
      ASSERT_EQ(found.offsets, slow.offsets) << NameOf(order) << seed;
      EXPECT_LE(placed->placement.height, found.height) << seed;
    }
    EXPECT_TRUE(ValidatePlacement(problem, placed->placement).ok()) << seed;
  }
}

TEST(PlaceTest, ThoseThatStickOutArePlacedEarlier) {
  int helped = 0;
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PlaceProblem problem =
        RandomPlaceProblem(seed, {.most = 60, .span = 40});
    const auto orders = Place(problem, {.nodes = 0});
    const auto placed = Place(problem, {.nodes = 1});
    ASSERT_TRUE(orders.ok() && placed.ok());
    EXPECT_TRUE(ValidatePlacement(problem, placed->placement).ok());
    EXPECT_LE(placed->placement.height, orders->placement.height);
    helped += placed->by == "squeaky wheel" &&
              placed->placement.height < orders->placement.height;
  }
  EXPECT_GT(helped, 0);
}

TEST(PlaceTest, RecordedStepsLieWithinOnePerCentOfTheBound) {
  for (const char* name : {"somas_pangu_2.6B.csv", "somas_resnet50.csv"}) {
    const PlaceProblem problem = Read(name);
    const auto placed = Place(problem);
    ASSERT_TRUE(placed.ok());
    EXPECT_TRUE(ValidatePlacement(problem, placed->placement).ok()) << name;
    EXPECT_LE(100 * Count(placed->placement.height),
              101 * Count(placed->bound.bytes))
        << name;
  }
}

class HardTraceTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HardTraceTest, FitsItsCapacity) {
  const PlaceProblem problem =
      Read(absl::StrCat("minimalloc_", GetParam(), ".1048576.csv"));
  const auto placed = Place(problem, {.enough = Bytes{1048576}});
  ASSERT_TRUE(placed.ok());
  EXPECT_TRUE(ValidatePlacement(problem, placed->placement).ok());
  EXPECT_LE(placed->placement.height, Bytes{1048576});
}

INSTANTIATE_TEST_SUITE_P(Minimalloc, HardTraceTest,
                         ::testing::Values("A", "B", "C", "D", "E", "F", "G",
                                           "H", "I", "J", "K"));

}  // namespace
}  // namespace ebbtide
