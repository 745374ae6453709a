#include "profiler/cupti_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/status/status.h"

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kOurs = 5;
constexpr uint32_t kKinetos = 3;

std::string ErrorOf(const CuptiRecords& records) {
  const auto profile = JoinWork(records);
  return profile.ok() ? "" : std::string(profile.status().message());
}

TEST(CuptiJoinTest, WorkBelongsToTheIdOfItsCall) {
  const auto profile = JoinWork(
      {.kernels = {{{10, 15, 0, 1, 1}}, {{15, 18, 0, 1, 2}}},
       .copies = {{{20, 29, 0, 2, 3}, CopyDirection::kToHost, Bytes{64}}},
       .sets = {{{30, 32, 0, 2, 4}, Bytes{16}}},
       .externals = {{kOurs, 100, 3}, {kOurs, 100, 1}, {kOurs, 200, 2}}});
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->by_id.size(), 2);
  WorkTotals first;
  first.kernels = {1, 5, Bytes{0}};
  first.copies[static_cast<size_t>(CopyDirection::kToHost)] = {1, 9, Bytes{64}};
  EXPECT_EQ(profile->by_id.at(100), first);
  EXPECT_EQ(profile->by_id.at(200).kernels, (WorkSum{1, 3, Bytes{0}}));
  WorkTotals rest;
  rest.sets = {1, 2, Bytes{16}};
  EXPECT_EQ(profile->unattributed, rest);
}

TEST(CuptiJoinTest, AGraphsLaunchHasManyKernels) {
  const auto profile =
      JoinWork({.kernels = {{{1, 2, 0, 1, 9}}, {{2, 4, 0, 1, 9}}},
                .externals = {{kOurs, 5, 9}}});
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(profile->by_id.at(5).kernels, (WorkSum{2, 3, Bytes{0}}));
}

TEST(CuptiJoinTest, IdsOfOthersArePassedOver) {
  const auto profile =
      JoinWork({.kernels = {{{1, 2, 0, 1, 9}}},
                .externals = {{kKinetos, 77, 9}, {kKinetos, 78, 9}}});
  ASSERT_TRUE(profile.ok());
  EXPECT_THAT(profile->by_id, IsEmpty());
  EXPECT_EQ(profile->unattributed.kernels, (WorkSum{1, 1, Bytes{0}}));
}

TEST(CuptiJoinTest, WhatOverlapsIsBusyOnce) {
  const auto profile = JoinWork(
      {.kernels = {{{30, 50, 0, 1, 1}},
                   {{10, 20, 0, 1, 1}},
                   {{12, 18, 0, 2, 1}},
                   {{5, 6, 1, 1, 1}}},
       .copies = {{{15, 35, 0, 3, 1}, CopyDirection::kToDevice, Bytes{1}}}});
  ASSERT_TRUE(profile.ok());
  EXPECT_THAT(profile->devices, ElementsAre(DeviceBusy{0, 10, 50, 30, 20, 40},
                                            DeviceBusy{1, 5, 6, 1, 0, 1}));
}

TEST(CuptiJoinTest, RecordsThatCannotBeRightAreRefusedByName) {
  EXPECT_THAT(ErrorOf({.kernels = {{{0, 0, 0, 1, 42}}}}),
              HasSubstr("a kernel with correlation 42 has no times"));
  EXPECT_THAT(ErrorOf({.sets = {{{9, 0, 0, 1, 42}, Bytes{1}}}}),
              HasSubstr("a set with correlation 42 has no times"));
  EXPECT_THAT(
      ErrorOf({.copies = {{{9, 7, 0, 1, 43}}}}),
      HasSubstr("a copy with correlation 43 begins at 9 and ends at 7"));
  EXPECT_THAT(ErrorOf({.externals = {{kOurs, 1, 44}, {kOurs, 2, 44}}}),
              HasSubstr("correlation 44 has two ids, 1 and 2"));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(
      ErrorOf({.kernels = {{{1, most, 0, 1, 1}}, {{1, most, 0, 1, 1}}}}),
      HasSubstr("beyond 64 bits"));
  EXPECT_THAT(ErrorOf({.sets = {{{1, 2, 0, 1, 1}, Bytes{most}},
                                {{1, 2, 0, 1, 1}, Bytes{most}}}}),
              HasSubstr("beyond 64 bits"));
}

TEST(CuptiJoinTest, NothingJoinsToNothing) {
  const auto profile = JoinWork({});
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(*profile, WorkProfile{});
}

}  // namespace
}  // namespace ebbtide
