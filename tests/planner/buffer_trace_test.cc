#include "planner/buffer_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ebbtide {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

std::string Refusal(const std::string& text) {
  const auto trace = BufferTraceFromCsv(text, "t.csv");
  return trace.ok() ? "" : std::string(trace.status().message());
}

TEST(BufferTraceTest, ColumnsComeInAnyOrder) {
  const auto trace = BufferTraceFromCsv(
      "size,id,upper,lower,offset,gaps,alignment\r\n"
      "8,a,9,0,16,2-4 5-6,4\r\n"
      "1,b,3,1,,,\r\n\n",
      "t.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->ids, ElementsAre("a", "b"));
  EXPECT_EQ(trace->problem.buffers[0], (Buffer{.size = Bytes{8},
                                               .live = {{0}, {9}},
                                               .gaps = {{{2}, {4}}, {{5}, {6}}},
                                               .alignment = Bytes{4},
                                               .offset = Bytes{16}}));
  EXPECT_EQ(
      trace->problem.buffers[1],
      (Buffer{.size = Bytes{1}, .live = {{1}, {3}}, .gaps = {}, .offset = {}}));
}

TEST(BufferTraceTest, SeveralStreamsHaveAClockEach) {
  const auto trace =
      BufferTraceFromCsv("id,lower,upper,size\na,0;1,2;1,8\n", "t.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->problem.buffers[0].live, (Lifetime{{0, 1}, {2, 1}}));
}

TEST(BufferTraceTest, RmmsLogIsRead) {
  const auto trace = BufferTraceFromCsv(
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "1,10:00:00,allocate,0x10,100,0x1\n"
      "1,10:00:01,allocate,0x20,50,0x2\n"
      "1,10:00:02,free,0x10,100,0x1\n"
      "1,10:00:03,allocate failure,0x0,1000,0x1\n"
      "1,10:00:04,allocate,0x10,70,0x1\n",
      "rmm.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->ids, ElementsAre("2", "3", "6"));
  EXPECT_THAT(trace->streams, ElementsAre(0, 1, 0));
  EXPECT_EQ(trace->problem.buffers[0].live, (Lifetime{{0}, {2}}));
  EXPECT_EQ(trace->problem.buffers[1].live, (Lifetime{{1}, {5}}));
  EXPECT_EQ(trace->problem.buffers[2].live, (Lifetime{{4}, {5}}));
}

TEST(BufferTraceTest, BadLinesAreNamed) {
  const std::string head = "id,lower,upper,size\n";
  EXPECT_THAT(Refusal(""), StartsWith("t.csv:1: expected a line"));
  EXPECT_THAT(Refusal("id,lower,size\n"),
              StartsWith("t.csv:1: expected a column upper"));
  EXPECT_THAT(Refusal("id,id,upper,size\n"),
              StartsWith("t.csv:1: expected the columns"));
  EXPECT_THAT(Refusal(head + "a,0,1\n"),
              StartsWith("t.csv:2: expected 4 fields, got 3"));
  EXPECT_THAT(Refusal(head + "a,0,1,x\n"), StartsWith("t.csv:2: size: "));
  EXPECT_THAT(Refusal(head + "a,0,1,\n"), StartsWith("t.csv:2: size: "));
  EXPECT_THAT(Refusal(head + "a,0,y,1\n"), StartsWith("t.csv:2: lower and"));
  EXPECT_THAT(Refusal(head + "a,0,-1,1\n"), StartsWith("t.csv:2: lower and"));
  EXPECT_THAT(Refusal(head + "a,0,1,1\na,0,1,1\n"),
              StartsWith("t.csv:3: id: expected each once"));
  EXPECT_THAT(Refusal(head + "a,1,1,1\n"), StartsWith("t.csv: buffer 0: "));
  EXPECT_THAT(Refusal("id,lower,upper,size,gaps\na,0,9,1,2_4\n"),
              StartsWith("t.csv:2: gaps: "));
  const std::string log = "Thread,Time,Action,Pointer,Size,Stream\n";
  EXPECT_THAT(Refusal(log + "1,0,free,0x1,1,0\n"),
              StartsWith("t.csv:2: Pointer: "));
  EXPECT_THAT(Refusal(log + "1,0,grow,0x1,1,0\n"),
              StartsWith("t.csv:2: Action: "));
  EXPECT_THAT(Refusal(log + "1,0,allocate,0x1,-1,0\n"),
              StartsWith("t.csv:2: Size: "));
}

TEST(BufferTraceTest, PlacementsAreWrittenById) {
  const auto trace =
      BufferTraceFromCsv("id,lower,upper,size\na,0,1,8\nb,0,1,8\n", "t.csv");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(PlacementToCsv(*trace, {Bytes{8}, Bytes{0}}),
            "id,offset\na,8\nb,0");
}

}  // namespace
}  // namespace ebbtide
