#include "allocator/arena_fit.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

char* const kBase = reinterpret_cast<char*>(int64_t{1} << 40);

ArenaRun RunOf(int64_t from, int64_t size) {
  return {.base = kBase + from, .size = Bytes{size}};
}

ArenaSpace SpaceOf(const std::vector<ArenaRun>& runs) {
  ArenaSpace space;
  for (const ArenaRun& run : runs) space.Append(run);
  return space;
}

// Of requests of 1000 bytes at those offsets.
ArenaPlan PlanOf(const std::vector<int64_t>& offsets) {
  PlannedPhase phase;
  for (const int64_t offset : offsets) {
    phase.push_back({.size = Bytes{1000}, .offset = offset});
  }
  auto plan = ArenaPlan::Make({phase});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// The runs' offsets are [0, 2048), [2560, 4608) and [5120, 7168).
const ArenaSpace kThree =
    SpaceOf({RunOf(0, 2048), RunOf(1 << 20, 2048), RunOf(2 << 20, 2048)});

TEST(ArenaFitTest, ARunIsUsedAsFarAsItsLastSlotEnds) {
  EXPECT_THAT(*UsedOf(PlanOf({512, 0, 6144, kUnplaced}), kThree),
              ElementsAre(Bytes{1536}, Bytes{0}, Bytes{2048}));
}

TEST(ArenaFitTest, WhereverTheRunsLieBlocksLieInThemAsTheyDid) {
  const ArenaPlan plan = PlanOf({512, 5120, kUnplaced, 0});
  const std::vector<ArenaRun> runs = {RunOf(7 << 20, 2048),
                                      RunOf(5 << 20, 3072)};
  const auto fit = FitInto(runs, Bytes{512}, plan, kThree);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_EQ(fit->space.At(fit->plan.slots()[0].offset), runs[0].base + 512);
  EXPECT_EQ(fit->space.At(fit->plan.slots()[1].offset), runs[1].base);
  EXPECT_EQ(fit->plan.slots()[2].offset, kUnplaced);
  EXPECT_EQ(fit->space.At(fit->plan.slots()[3].offset), runs[0].base);
  // A wall between what is used of them, and the fallback behind the last.
  EXPECT_EQ(fit->plan.height(), Bytes{1536 + 512 + 1024});
  EXPECT_EQ(fit->space.size(), Bytes{1536 + 1024 + 512});
  ASSERT_EQ(fit->ends.size(), 2);
  EXPECT_EQ(fit->ends[0].base, runs[0].base + 1536);
  EXPECT_EQ(fit->ends[0].end(), runs[0].end());
  EXPECT_EQ(fit->ends[1].base, runs[1].base + 1536);
  EXPECT_EQ(fit->ends[1].end(), runs[1].end());
}

TEST(ArenaFitTest, RunsThatAreAsLongAsTheyAreUsedHaveNoEnds) {
  const auto fit = FitInto({RunOf(0, 1024)}, Bytes{0}, PlanOf({2560}), kThree);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_THAT(fit->ends, IsEmpty());
}

TEST(ArenaFitTest, WhatDoesNotFitIsNamed) {
  const auto refusal = [](const std::vector<ArenaRun>& runs, int64_t offset) {
    const auto fit = FitInto(runs, Bytes{512}, PlanOf({0, offset}), kThree);
    return std::string(fit.status().message());
  };
  EXPECT_EQ(refusal({RunOf(0, 1024), RunOf(1 << 20, 1024)}, 2560),
            "run 1: expected 1536 bytes");
  EXPECT_EQ(refusal({RunOf(0, 1024)}, 2560), "run 1: expected 1536 bytes");
  EXPECT_EQ(refusal({RunOf(0, 2048), RunOf(1 << 20, 2048)}, 512),
            "run 1: unused");
  EXPECT_EQ(refusal({RunOf(0, 2048)}, 1536),
            "request 1: expected a run that has the bytes 1536 to 2560");
  EXPECT_EQ(refusal({RunOf(0, 2048)}, 8192),
            "request 1: expected a run that has the bytes 8192 to 9216");
}

}  // namespace
}  // namespace ebbtide
