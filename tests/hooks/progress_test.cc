#include "hooks/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ebbtide {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class FakeSink final : public ProgressSink {
 public:
  std::optional<Size> TerminalSize() override { return size; }
  std::optional<Bytes> FileSize() override { return file_size; }
  void Write(const std::string& text) override {
    written.push_back(text);
    if (file_size) *file_size += Bytes{static_cast<int64_t>(text.size())};
  }

  std::optional<Size> size;
  std::optional<Bytes> file_size;
  std::vector<std::string> written;
};

ProgressFacts Step(int64_t step) {
  return {.step = step,
          .peak = Bytes{3 << 20},
          .budget = Bytes{4 << 20},
          .seconds = 0.0612,
          .state = "active"};
}

TEST(ProgressTest, ALineSaysStepPeakTimeAndState) {
  ProgressFacts facts = Step(12);
  EXPECT_EQ(ProgressLine(facts),
            "ebbtide: step 12, peak 3.00 MiB of 4.00 MiB, 61.2 ms, active");
  facts.budget = Bytes{-1};
  EXPECT_THAT(ProgressLine(facts), HasSubstr("peak 3.00 MiB, 61.2 ms"));
}

TEST(ProgressTest, ALogHasALineNowAndThen) {
  FakeSink sink;
  sink.file_size = Bytes{1234};
  Progress progress(&sink);
  std::vector<int> shown;
  for (int second = 0; second <= 3600; ++second) {
    progress.OnStep(1000 + second, Step(second));
    if (sink.written.size() > shown.size()) shown.push_back(second);
  }
  EXPECT_THAT(shown,
              ElementsAre(30, 90, 210, 450, 930, 1530, 2130, 2730, 3330));
  for (const std::string& line : sink.written) {
    EXPECT_THAT(line, StartsWith("ebbtide: step "));
    EXPECT_THAT(line, EndsWith("active\n"));
    EXPECT_THAT(line, Not(HasSubstr("\033")));
  }
  progress.OnChange(9999, Step(1));
  progress.Close();
  EXPECT_EQ(sink.written.size(), shown.size());
}

TEST(ProgressTest, ALogThatTheProgramWritesHasNoLineOfOurs) {
  FakeSink sink;
  sink.file_size = Bytes{0};
  Progress progress(&sink);
  for (int second = 0; second <= 120; ++second) {
    *sink.file_size += Bytes{1};
    progress.OnStep(second, Step(second));
  }
  EXPECT_THAT(sink.written, IsEmpty());
  // It has nothing more to say from the interval on that begins at 210.
  for (int second = 121; second <= 450; ++second) {
    progress.OnStep(second, Step(second));
  }
  EXPECT_EQ(sink.written.size(), 1);
}

TEST(ProgressTest, APipeHasNoLineOfOurs) {
  FakeSink sink;
  Progress progress(&sink);
  for (int second = 0; second <= 120; ++second) {
    progress.OnStep(second, Step(second));
  }
  EXPECT_THAT(sink.written, IsEmpty());
}

TEST(ProgressTest, EveryStepWhereThatIsAskedFor) {
  FakeSink sink;
  Progress progress(&sink, /*every_step=*/true);
  for (int i = 0; i < 5; ++i) progress.OnStep(i, Step(i));
  EXPECT_EQ(sink.written.size(), 5);
}

TEST(ProgressTest, ATerminalHasARowThatIsDrawnAnew) {
  FakeSink sink;
  sink.size = {24, 80};
  Progress progress(&sink);
  for (int i = 0; i <= 100; ++i) progress.OnStep(0.01 * i, Step(i));
  ASSERT_EQ(sink.written.size(), 5);  // four a second
  EXPECT_THAT(sink.written[0], StartsWith("\033D\0337\033[1;23r\0338\033[1A"));
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_THAT(sink.written[i], StartsWith("\0337\033[24;1H\033[2Kebbtide: "));
    EXPECT_THAT(sink.written[i], EndsWith("active\0338"));
    EXPECT_THAT(sink.written[i], Not(HasSubstr("\n")));
  }
  progress.OnChange(1.01, Step(101));
  EXPECT_EQ(sink.written.size(), 6);
  progress.Close();
  EXPECT_EQ(sink.written.back(), "\0337\033[r\033[24;1H\033[2K\0338");
  progress.Close();
  progress.OnStep(1e9, Step(1));
  progress.OnChange(1e9, Step(1));
  EXPECT_EQ(sink.written.size(), 7);
}

TEST(ProgressTest, ARowFollowsTheSizeOfItsTerminal) {
  FakeSink sink;
  sink.size = {24, 20};
  Progress progress(&sink);
  progress.OnStep(0, Step(1));
  EXPECT_THAT(sink.written.back(), HasSubstr("ebbtide: step 1, pe\0338"));
  sink.size = {10, 80};
  progress.OnStep(1, Step(2));
  EXPECT_THAT(sink.written.back(), StartsWith("\0337\033[r\033[24;1H\033[2K"));
  EXPECT_THAT(sink.written.back(), HasSubstr("\033[1;9r"));
  sink.size.reset();  // it is gone
  progress.OnStep(2, Step(3));
  EXPECT_EQ(sink.written.size(), 2);
}

TEST(ProgressTest, AChildLeavesTheRowToItsParent) {
  FakeSink sink;
  sink.size = {24, 80};
  Progress progress(&sink);
  progress.OnStep(0, Step(1));
  progress.Forget();
  progress.OnStep(9, Step(2));
  progress.OnChange(9, Step(2));
  progress.Close();
  EXPECT_EQ(sink.written.size(), 1);
}

}  // namespace
}  // namespace ebbtide
