// The steps that a trace keeps if there is no room for all of them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "profiler/timeline.h"
#include "profiler/trace.h"
#include "profiler/trace_writer.h"

namespace ebbtide {
namespace {

constexpr int64_t kApart = 1000;  // nanoseconds from step to step
constexpr Bytes kMost{64 << 10};

// Another one each time: the thread of a writer that has been closed may still
// hold its file.
std::string NewPath() {
  static int made = 0;
  return testing::TempDir() + "/" +
         testing::UnitTest::GetInstance()->current_test_info()->name() + "." +
         std::to_string(++made) + ".ebbtide";
}

// The records of one step. Its spans are added when the next one has begun, as
// those of a device are, but for the last.
struct Steps {
  int64_t count = 0;
  int spans = 20;
  bool is_late = false;
  Bytes most = kMost;

  void Tell(TraceWriter& writer, int64_t step) const {
    for (int i = 0; i < spans; ++i) {
      const int64_t at = step * kApart + 8 * i;
      writer.Add(Span{SpanKind::kForward, 0, at + 1, at + 5});
    }
  }
  Trace Record(const std::string& path = NewPath()) const {
    const auto writer = *TraceWriter::Open(path, {.max_size = most});
    writer->Name("op");
    for (int64_t step = 0; step < count; ++step) {
      writer->BeginStep(step, step * kApart);
      if (is_late && step > 0) Tell(*writer, step - 1);
      const int64_t block =
          writer->Allocate(step * kApart + 2, Bytes{100 + step}, Kind::kSaved,
                           0, Bytes{100 + step});
      if (!is_late || step == count - 1) Tell(*writer, step);
      writer->Free(step * kApart + 900, block, Bytes{100 + step}, Bytes{0});
      writer->EndStep(step, step * kApart + 950, Bytes{100 + step});
    }
    writer->AddText({0, TextKind::kReport, "the report"});
    EXPECT_TRUE(writer->Close().ok());
    EXPECT_LE(std::filesystem::file_size(path), Count(most));
    return *ReadTrace(path);
  }
};

// How many spans there are of each step.
std::map<int64_t, int> SpansByStep(const Trace& trace) {
  std::map<int64_t, int> spans;
  for (const Span& span : trace.spans) ++spans[span.begin / kApart];
  return spans;
}

std::vector<int64_t> LeftOut(const Trace& trace) {
  std::vector<int64_t> steps;
  for (const TraceGap& gap : trace.gaps) {
    for (int64_t step = gap.first; step <= gap.last; ++step) {
      steps.push_back(step);
    }
  }
  return steps;
}

void ExpectWholeSteps(const Steps& job, const Trace& trace) {
  EXPECT_EQ(trace.damage, "");
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.detail_end, 0);
  EXPECT_EQ(trace.dropped, 0);
  EXPECT_EQ(trace.steps.size(), job.count);
  EXPECT_EQ(trace.texts.at(0).text, "the report");
  const std::map<int64_t, int> spans = SpansByStep(trace);
  for (const auto& [step, count] : spans) EXPECT_EQ(count, job.spans) << step;
  const std::vector<int64_t> left_out = LeftOut(trace);
  EXPECT_EQ(spans.size() + left_out.size(), job.count);
  for (const int64_t step : left_out) EXPECT_FALSE(spans.contains(step));
  EXPECT_TRUE(spans.contains(job.count - 1)) << "the last step is missing";
}

TEST(TraceThinningTest, EachStepIsWholeOrLeftOutAndTheLastIsThere) {
  for (int64_t steps = 380; steps < 396; ++steps) {
    const Steps job = {.count = steps};
    ExpectWholeSteps(job, job.Record());
  }
}

TEST(TraceThinningTest, StepsComeAtGrowingDistance) {
  const Trace trace =
      Steps{.count = 3000, .spans = 90, .most = Bytes{1 << 20}}.Record();
  std::vector<int64_t> kept;
  for (const auto& [step, count] : SpansByStep(trace)) kept.push_back(step);
  std::vector<int64_t> apart;
  // The last one is there whatever its turn.
  for (size_t i = 1; i + 1 < kept.size(); ++i) {
    apart.push_back(kept[i] - kept[i - 1]);
  }
  EXPECT_TRUE(std::is_sorted(apart.begin(), apart.end()));
  EXPECT_EQ(apart.front(), 1);
  EXPECT_THAT(apart, testing::Contains(2));
  EXPECT_THAT(apart, testing::Contains(4));
  EXPECT_GE(apart.back(), 32);
  // A good part of the file has every step.
  EXPECT_GT(std::count(apart.begin(), apart.end(), 1), 100);
}

TEST(TraceThinningTest, AFileThatIsLargeEnoughHasAllSteps) {
  const Steps job = {.count = 40};
  const Trace trace = job.Record();
  ExpectWholeSteps(job, trace);
  EXPECT_TRUE(trace.gaps.empty());
}

TEST(TraceThinningTest, WhatADeviceDidIsToldWithItsStepThoughLater) {
  for (int64_t steps = 380; steps < 388; ++steps) {
    const Steps job = {.count = steps, .is_late = true};
    const Trace trace = job.Record();
    std::map<int64_t, int> spans = SpansByStep(trace);
    for (const auto& [step, count] : spans) {
      EXPECT_EQ(count, job.spans) << step;
    }
    for (const int64_t step : LeftOut(trace)) {
      EXPECT_FALSE(spans.contains(step)) << step;
    }
    EXPECT_TRUE(spans.contains(steps - 1));
  }
}

TEST(TraceThinningTest, AStepLargerThanItsRoomIsLeftOutAndTheNextIsNot) {
  const std::string path = NewPath();
  const auto writer = *TraceWriter::Open(path, {.max_size = kMost});
  writer->Name("op");
  for (int64_t step = 0; step < 200; ++step) {
    writer->BeginStep(step, step * kApart);
    Steps{.spans = step == 150 ? 10'000 : 20}.Tell(*writer, step);
    writer->EndStep(step, step * kApart + 950, Bytes{1});
  }
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_LE(std::filesystem::file_size(path), Count(kMost));
  const Trace trace = *ReadTrace(path);
  EXPECT_EQ(trace.damage, "");
  const std::map<int64_t, int> spans = SpansByStep(trace);
  EXPECT_FALSE(spans.contains(150));
  EXPECT_EQ(spans.at(199), 20);
  EXPECT_EQ(trace.steps.size(), 200);
}

TEST(TraceThinningTest, ThePageHasTheGapsAndAllSteps) {
  const std::string path = NewPath();
  const Trace trace = Steps{.count = 400}.Record(path);
  const auto timeline = MakeTimeline(SourceOf(path));
  ASSERT_TRUE(timeline.ok());
  EXPECT_EQ(timeline->gaps, trace.gaps);
  EXPECT_EQ(timeline->whole_steps, 400);
  ASSERT_FALSE(timeline->gaps.empty());
  const TraceGap& gap = timeline->gaps.front();
  EXPECT_EQ(gap.begin, gap.first * kApart);
  EXPECT_EQ(gap.end, gap.last * kApart + 950);
}

}  // namespace
}  // namespace ebbtide
