#include "hooks/step_log.h"

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

TEST(StepLogTest, AShortRunIsKnownWhole) {
  StepLog log;
  EXPECT_EQ(log.first(), 0);
  log.Add({.seconds = 0.25, .peak = Bytes{5}});
  log.Add({.seconds = 0.75, .peak = Bytes{6}});
  log.last().plan = 3;
  EXPECT_EQ(log.count(), 2);
  EXPECT_EQ(log.first(), 0);
  ASSERT_EQ(log.known().size(), 2);
  EXPECT_EQ(log.known()[0].plan, -1);
  EXPECT_EQ(log.known()[1].plan, 3);
}

TEST(StepLogTest, ALongRunKeepsItsLastSteps) {
  constexpr int kMore = 10;
  StepLog log;
  const int steps = static_cast<int>(StepLog::kMost) + kMore;
  for (int i = 0; i < steps; ++i) log.Add({.peak = Bytes{i}});
  EXPECT_EQ(log.count(), steps);
  EXPECT_EQ(log.first(), kMore);
  EXPECT_EQ(log.known().size(), StepLog::kMost);
  EXPECT_EQ(log.known().front().peak, Bytes{kMore});
  EXPECT_EQ(log.last().peak, Bytes{steps - 1});
}

TEST(StepLogTest, AStepIsFoundByItsNumberUntilItIsForgotten) {
  StepLog log;
  for (size_t i = 0; i < StepLog::kMost + 2; ++i) log.Add({.plan = int(i)});
  EXPECT_EQ(log.Find(1), nullptr);
  ASSERT_NE(log.Find(2), nullptr);
  EXPECT_EQ(log.Find(2)->plan, 2);
  EXPECT_EQ(log.Find(log.count() - 1), &log.last());
  EXPECT_EQ(log.Find(log.count()), nullptr);
}

}  // namespace
}  // namespace ebbtide
