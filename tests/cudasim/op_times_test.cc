#include "tests/cudasim/op_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace cudasim {
namespace {

using testing::Optional;

// Tests run side by side, each in a process of its own.
std::string Written(const std::string& text) {
  const std::string path =
      testing::TempDir() + "/OpTimesTest." +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream(path) << text;
  return path;
}

std::string ErrorOf(const std::string& text) {
  const std::string path = Written(text);
  std::string error;
  EXPECT_FALSE(OpTimes::Read(path, &error));
  EXPECT_EQ(error.rfind(path, 0), 0) << error;
  return error.substr(path.size());
}

TEST(OpTimesTest, FindsTheTimeOfAnOp) {
  std::string error;
  const auto table = OpTimes::Read(
      Written("# of a test\n\n1500.5\tmm BFloat16[2,3] BFloat16[3,4]\n"
              "2e3\tneg Float[5]\n"),
      &error);
  ASSERT_TRUE(table) << error;
  EXPECT_EQ(table->size(), 2);
  EXPECT_THAT(table->Find("mm BFloat16[2,3] BFloat16[3,4]"), Optional(1500.5));
  EXPECT_THAT(table->Find("neg Float[5]"), Optional(2000.0));
  EXPECT_EQ(table->Find("neg Float[6]"), std::nullopt);
}

TEST(OpTimesTest, RefusesATimeThatIsMissingNegativeOrNotFinite) {
  const std::string expected =
      "is not a positive, finite number of nanoseconds";
  EXPECT_EQ(ErrorOf("1\tneg Float[5]\n-1\tmm\n"), ":2: mm: '-1' " + expected);
  EXPECT_EQ(ErrorOf("nan\tmm\n"), ":1: mm: 'nan' " + expected);
  EXPECT_EQ(ErrorOf("inf\tmm\n"), ":1: mm: 'inf' " + expected);
  EXPECT_EQ(ErrorOf("0\tmm\n"), ":1: mm: '0' " + expected);
  EXPECT_EQ(ErrorOf("12x\tmm\n"), ":1: mm: '12x' " + expected);
  EXPECT_EQ(ErrorOf("\tmm\n"), ":1: mm: '' " + expected);
}

TEST(OpTimesTest, RefusesALineWithoutAnOpOrWithAKnownOne) {
  EXPECT_EQ(ErrorOf("5\n"),
            ":1: expected nanoseconds, a tab and an op, found '5'");
  EXPECT_EQ(ErrorOf("5\tmm\n6\tmm\n"), ":2: mm: an earlier line has its time");
}

}  // namespace
}  // namespace cudasim
