#include "allocator/rate.h"

#include <gtest/gtest.h>

namespace ebbtide {
namespace {

TEST(RateTest, ACopyCountsByItsBytes) {
  Rate rate;
  EXPECT_EQ(rate.per_second(), 0);
  rate.Add(100, 1);
  EXPECT_EQ(rate.per_second(), 100);
  rate.Add(300, 1);
  EXPECT_EQ(rate.per_second(), 200);
}

TEST(RateTest, CopiesThatWereHeldUpDoNotCount) {
  Rate rate;
  for (int i = 0; i < 14; ++i) rate.Add(100, 1);
  rate.Add(100, 1000);
  rate.Add(100, 5000);
  EXPECT_EQ(rate.per_second(), 100);
  rate.Add(100, 3000);
  EXPECT_LT(rate.per_second(), 100);
}

TEST(RateTest, TheLastSixteenCount) {
  Rate rate;
  for (int i = 0; i < 50; ++i) rate.Add(100, 1);
  for (int i = 0; i < 16; ++i) rate.Add(100, 2);
  EXPECT_EQ(rate.per_second(), 50);
}

}  // namespace
}  // namespace ebbtide
