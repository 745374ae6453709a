#include "planner/time_spread.h"

#include <gtest/gtest.h>

namespace ebbtide {
namespace {

TEST(TimeSamplesTest, TheLeastIsOfAllAndTheSpreadOfTheLast) {
  TimeSamples samples;
  EXPECT_EQ(samples.Spread(), TimeSpread());
  samples.Add(1);
  for (int i = 0; i < TimeSamples::kKept; ++i) samples.Add(100 + i % 5);
  EXPECT_EQ(samples.Least(), 1);
  EXPECT_EQ(samples.Spread(), (TimeSpread{.steps = TimeSamples::kKept,
                                          .median = 101,
                                          .quartiles = 2,
                                          .most = 104}));
}

TEST(TimeSamplesTest, OneStepScattersNot) {
  TimeSamples samples;
  samples.Add(7);
  EXPECT_EQ(samples.Spread(), (TimeSpread{1, 7, 0, 7}));
}

TEST(PoolTimesTest, IdenticalLayersHaveTheSameTimes) {
  std::vector<TimedOp> ops = {{1, 10, {5, 11, 1, 30}},
                              {1, 11, {5, 12, 2, 12}},
                              {1, 12, {5, 13, 1, 13}},
                              {2, 99, {5, 99, 1, 99}}};
  PoolTimes(&ops);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ops[i].time, 11) << i;
    EXPECT_EQ(ops[i].spread.median, 12) << i;
    EXPECT_EQ(ops[i].spread.quartiles, 1) << i;
  }
  EXPECT_EQ(ops[0].spread.most, 30);  // an observed time stays
  EXPECT_EQ(ops[3].time, 99);
}

TEST(PoolTimesTest, AnOpThatStandsOutKeepsItsTime) {
  std::vector<TimedOp> ops = {{1, 10, {5, 11, 1, 12}},
                              {1, 10.5, {5, 11, 1, 12}},
                              {1, 20, {5, 22, 2, 25}}};
  PoolTimes(&ops);
  EXPECT_EQ(ops[0].time, 10.5);
  EXPECT_EQ(ops[1].time, 10.5);
  EXPECT_EQ(ops[2].time, 20);
  EXPECT_EQ(ops[2].spread.median, 22);
}

TEST(PoolTimesTest, AnOpThatWaitedInTheFirstStepsGetsTheMedian) {
  std::vector<TimedOp> ops = {{1, 10, {2, 10, 0, 10}},
                              {1, 11, {2, 11, 0, 11}},
                              {1, 12, {2, 12, 0, 12}},
                              {1, 30, {2, 30, 0, 30}},
                              {2, 30, {2, 30, 0, 30}}};
  PoolTimes(&ops);
  EXPECT_EQ(ops[0].time, 10);
  EXPECT_EQ(ops[2].time, 12);
  EXPECT_EQ(ops[3].time, 11);
  EXPECT_EQ(ops[4].time, 30);
}

TEST(PoolTimesTest, OpsThatAreHardlyMeasuredAreLeftAlone) {
  std::vector<TimedOp> ops = {{1, 10, {2, 11, 9, 12}}, {1, 12, {2, 13, 9, 14}}};
  PoolTimes(&ops);
  EXPECT_EQ(ops[0].time, 10);
  EXPECT_EQ(ops[1].time, 12);
}

}  // namespace
}  // namespace ebbtide
