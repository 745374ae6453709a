#include "tests/cudasim/calls.h"

#include <gtest/gtest.h>

namespace cudasim {
namespace {

TEST(CallsTest, TheNthCallFailsAndTheNextOnesDoNot) {
  Calls calls;
  calls.Fail("cudaMalloc", 1, 2, 7);
  EXPECT_EQ(calls.Enter("cudaMalloc"), 0);
  EXPECT_EQ(calls.Enter("cudaFree"), 0);
  EXPECT_EQ(calls.Enter("cudaMalloc"), 7);
  EXPECT_EQ(calls.Enter("cudaMalloc"), 7);
  EXPECT_EQ(calls.Enter("cudaMalloc"), 0);
  EXPECT_EQ(calls.count("cudaMalloc"), 4);
  EXPECT_EQ(calls.count("cudaFree"), 1);
  EXPECT_EQ(calls.count("cudaMemcpy"), 0);
}

TEST(CallsTest, AllCallsFailWhereTimesIsNegative) {
  Calls calls;
  calls.Fail("cudaMalloc", 0, -1, 2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(calls.Enter("cudaMalloc"), 2);
}

TEST(CallsTest, OneCallOfAllFails) {
  Calls calls;
  EXPECT_EQ(calls.Enter("a"), 0);
  calls.FailOne(1, 7);
  EXPECT_EQ(calls.Enter("a"), 0);
  EXPECT_FALSE(calls.hit());
  EXPECT_EQ(calls.Enter("cudaGetDevice"), 0);
  EXPECT_FALSE(calls.hit());
  EXPECT_EQ(calls.Enter("b"), 7);
  EXPECT_TRUE(calls.hit());
  EXPECT_EQ(calls.Enter("b"), 0);
  EXPECT_FALSE(calls.hit());
  EXPECT_EQ(calls.total(), 4);
}

TEST(CallsTest, ReadsFaultsFromText) {
  Calls calls;
  EXPECT_TRUE(calls.FailAll("a:0:1:2,b:1:-1:719"));
  EXPECT_EQ(calls.Enter("a"), 2);
  EXPECT_EQ(calls.Enter("a"), 0);
  EXPECT_EQ(calls.Enter("b"), 0);
  EXPECT_EQ(calls.Enter("b"), 719);
  EXPECT_TRUE(calls.FailAll(""));
  for (const char* text : {"a", "a:1", "a:1:1", "a:1:1:x", ":0:1:2"}) {
    EXPECT_FALSE(calls.FailAll(text)) << text;
  }
}

}  // namespace
}  // namespace cudasim
