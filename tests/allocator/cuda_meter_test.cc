#include "allocator/cuda_meter.h"

#include <memory>
#include <utility>
#include <vector>

#include "allocator/cuda_lanes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "profiler/clock.h"
#include "tests/allocator/fake_cuda.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

// Copies of 1 MiB take 1 s out and 2 s back; a copy waits for the program,
// whose kernels say when.
class CudaMeterTest : public testing::Test {
 protected:
  void SetUp() override {
    cuda_.bytes_per_second_out = 1 << 20;
    cuda_.bytes_per_second_back = 1 << 19;
    slab_ =
        *PinnedSlab::Open(cuda_.api(), {.limit = MiB(64), .ahead = Bytes{0}});
    lanes_ = *CudaLanes::Open(cuda_.api(), slab_.get(), 0);
  }
  void Observe() {
    lanes_ = *CudaLanes::Open(
        cuda_.api(), slab_.get(), 0,
        {std::make_shared<CudaClock>(),
         [this](const TimedCopy& copy) { told_.push_back(copy); }});
  }
  void TearDown() override {
    lanes_.reset();
    slab_.reset();
  }
  // A copy that begins so many seconds after the start.
  void Copy(CopyWay way, Bytes size, double after = 0) {
    const cudaStream_t stream = cuda_.NewStream();
    cuda_.Launch(
        stream, [] {}, after);
    const Extent extent = *lanes_->Take(size);
    const CopyLabel label = {.name = ++copies_, .value = copies_ * 10};
    const auto copy =
        way == CopyWay::kOut
            ? lanes_->Out(memory_.data(), extent, size, stream, label)
            : lanes_->Back(extent, memory_.data(), size, stream, label);
    EXPECT_TRUE(copy.ok());
  }
  void RunAndPoll() {
    cuda_.Run();
    lanes_->Poll();
  }
  double Out() { return lanes_->Bandwidth(CopyWay::kOut); }
  double Back() { return lanes_->Bandwidth(CopyWay::kBack); }
  double OutContended() { return lanes_->ContendedBandwidth(CopyWay::kOut); }
  double BackContended() { return lanes_->ContendedBandwidth(CopyWay::kBack); }

  FakeCuda cuda_;
  std::unique_ptr<PinnedSlab> slab_;
  std::unique_ptr<CudaLanes> lanes_;
  std::vector<char> memory_ = std::vector<char>(32 << 20);
  int copies_ = 0;
  std::vector<TimedCopy> told_;
};

TEST_F(CudaMeterTest, ACopyAloneIsMeasuredWhenItHasEnded) {
  Copy(CopyWay::kOut, MiB(4), 3);
  lanes_->Poll();
  EXPECT_EQ(Out(), 0);
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);  // not the wait before it
  EXPECT_EQ(OutContended(), 0);
  EXPECT_EQ(Back(), 0);
}

TEST_F(CudaMeterTest, CopiesSideBySideAreContended) {
  Copy(CopyWay::kOut, MiB(4), 1);   // [1, 5)
  Copy(CopyWay::kBack, MiB(2), 1);  // [1, 5)
  RunAndPoll();
  EXPECT_DOUBLE_EQ(OutContended(), 1 << 20);
  EXPECT_DOUBLE_EQ(BackContended(), 1 << 19);
  EXPECT_EQ(Out(), 0);
  EXPECT_EQ(Back(), 0);
}

TEST_F(CudaMeterTest, CopiesOneAfterTheOtherAreAlone) {
  Copy(CopyWay::kBack, MiB(2), 4);  // [4, 8)
  Copy(CopyWay::kOut, MiB(4), 0);   // [0, 4)
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
  EXPECT_DOUBLE_EQ(Back(), 1 << 19);
  EXPECT_EQ(OutContended(), 0);
  EXPECT_EQ(BackContended(), 0);
}

TEST_F(CudaMeterTest, CopiesThatMeetForAPartCountAsNeither) {
  Copy(CopyWay::kOut, MiB(4), 0);   // [0, 4)
  Copy(CopyWay::kBack, MiB(2), 2);  // [2, 6)
  RunAndPoll();
  EXPECT_EQ(Out(), 0);
  EXPECT_EQ(Back(), 0);
  EXPECT_EQ(OutContended(), 0);
  EXPECT_EQ(BackContended(), 0);
}

// Its end is not known yet when the short one's is.
TEST_F(CudaMeterTest, ACopyThatStillRunsContends) {
  Copy(CopyWay::kBack, MiB(32));   // [0, 64), in two parts
  Copy(CopyWay::kOut, MiB(1), 1);  // [1, 2)
  const cudaStream_t back = cuda_.Made(1);
  cuda_.Hold(back);
  cuda_.Run();
  cuda_.Hold(back, false);
  // The wait, the event that begins it, and the first part.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cuda_.StepOn(back));
  lanes_->Poll();
  EXPECT_DOUBLE_EQ(OutContended(), 1 << 20);
  EXPECT_EQ(Out(), 0);
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Back(), 1 << 19);
}

TEST_F(CudaMeterTest, ACopyThatHasNotBegunDoesNotContend) {
  Copy(CopyWay::kBack, MiB(1), 8);
  Copy(CopyWay::kOut, MiB(1));
  cuda_.Hold(cuda_.Made(1));
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
  cuda_.Hold(cuda_.Made(1), false);
  RunAndPoll();
}

TEST_F(CudaMeterTest, WhatHasEndedBeforeDoesNotContend) {
  Copy(CopyWay::kOut, MiB(4));     // [0, 4)
  Copy(CopyWay::kBack, MiB(2));    // [0, 4)
  Copy(CopyWay::kOut, MiB(4), 4);  // [4, 8)
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
  EXPECT_DOUBLE_EQ(OutContended(), 1 << 20);
}

// The parts of one run between those of the other.
TEST_F(CudaMeterTest, CopiesOfTwoThreadsThatMixAreNotMeasured) {
  bool nested = false;
  cuda_.on_call = [&] {
    if (cuda_.parts.size() != 1 || std::exchange(nested, true)) return;
    Copy(CopyWay::kOut, MiB(2));
  };
  Copy(CopyWay::kOut, MiB(32));
  cuda_.on_call = nullptr;
  RunAndPoll();
  EXPECT_EQ(cuda_.parts, (std::vector<size_t>{16 << 20, 2 << 20, 16 << 20}));
  EXPECT_EQ(Out(), 0);
  Copy(CopyWay::kOut, MiB(2));
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
}

TEST_F(CudaMeterTest, ManyShortCopiesContendWithALongOne) {
  for (int i = 0; i < 8; ++i) Copy(CopyWay::kOut, MiB(1));  // [0, 8)
  Copy(CopyWay::kBack, MiB(4));                             // [0, 8)
  RunAndPoll();
  EXPECT_DOUBLE_EQ(OutContended(), 1 << 20);
  EXPECT_DOUBLE_EQ(BackContended(), 1 << 19);
}

TEST_F(CudaMeterTest, SmallCopiesAreNotMeasured) {
  Copy(CopyWay::kOut, KiB(1023));
  RunAndPoll();
  EXPECT_EQ(Out(), 0);
}

TEST_F(CudaMeterTest, CopiesThatStartWhileMeasuringIsOffAreNotMeasured) {
  lanes_->MeasureCopies(false);
  Copy(CopyWay::kOut, MiB(4));
  RunAndPoll();
  EXPECT_EQ(Out(), 0);
  lanes_->MeasureCopies(true);
  Copy(CopyWay::kOut, MiB(4));
  RunAndPoll();
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
}

TEST_F(CudaMeterTest, AnObserverIsToldOfEveryCopyOnTheHostsClock) {
  constexpr int64_t kSecond = 1'000'000'000;
  Observe();
  const int64_t asked = NowNanos();
  Copy(CopyWay::kOut, KiB(512), 1);   // [1, 1.5)
  Copy(CopyWay::kBack, KiB(256), 1);  // [1, 1.5)
  Copy(CopyWay::kOut, MiB(2), 4);     // [4, 6)
  lanes_->Poll();
  EXPECT_THAT(told_, testing::IsEmpty());
  RunAndPoll();
  const int64_t seen = NowNanos();
  ASSERT_THAT(told_, testing::SizeIs(3));
  const TimedCopy& first = told_[0];
  const TimedCopy& second = told_[1];
  const TimedCopy& back = told_[2];
  EXPECT_EQ(first.way, CopyWay::kOut);
  EXPECT_EQ(first.size, KiB(512));
  EXPECT_EQ(first.label.name, 1);
  EXPECT_EQ(first.label.value, 10);
  EXPECT_EQ(second.label.name, 3);
  EXPECT_EQ(back.way, CopyWay::kBack);
  EXPECT_EQ(back.label.name, 2);
  EXPECT_EQ(first.end - first.begin, kSecond / 2);
  EXPECT_EQ(back.end - back.begin, kSecond / 2);
  EXPECT_EQ(second.end - second.begin, 2 * kSecond);
  for (const TimedCopy& copy : told_) {
    EXPECT_GE(copy.end, asked);
    EXPECT_LE(copy.end, seen);
  }
  // Small ones say nothing about how fast the device copies.
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
  EXPECT_EQ(Back(), 0);
}

TEST_F(CudaMeterTest, AClockKnowsWhatWasBeforeItsFirstEvent) {
  CudaClock clock;
  const auto events = CudaEvents::Create(cuda_.api(), 0);
  const cudaStream_t stream = cuda_.NewStream();
  std::vector<std::shared_ptr<const CudaEvent>> marks;
  for (const double seconds : {3.0, 0.25}) {
    cuda_.Launch(
        stream, [] {}, seconds);
    auto event = *events->Take(CudaEvent::Use::kTiming);
    ASSERT_TRUE(event.Record(stream).ok());
    marks.push_back(std::make_shared<const CudaEvent>(std::move(event)));
  }
  EXPECT_EQ(*clock.SecondsOf(marks[0]), std::nullopt);
  cuda_.Run();
  EXPECT_EQ(*clock.SecondsOf(marks[1]), 0);
  EXPECT_EQ(*clock.SecondsOf(marks[0]), -0.25);
}

TEST_F(CudaMeterTest, AnEventThatFailsHasNoTime) {
  const auto events = CudaEvents::Create(cuda_.api(), 0);
  auto event = *events->Take(CudaEvent::Use::kTiming);
  ASSERT_TRUE(event.Record(cuda_.NewStream()).ok());
  const auto mark = std::make_shared<const CudaEvent>(std::move(event));
  cuda_.Run();
  for (int call = 0; call < 2; ++call) {  // the query, the time between
    CudaClock clock;
    cuda_.FailCall(cuda_.calls() + call, cudaErrorUnknown);
    EXPECT_FALSE(clock.SecondsOf(mark).ok());
  }
  EXPECT_TRUE(CudaClock().SecondsOf(mark).ok());
}

// Times between events are floats: over a day they know 8 ms. These copies take
// 1 ms, one after the other.
TEST_F(CudaMeterTest, TheClockStaysExactForDays) {
  cuda_.bytes_per_second_out = cuda_.bytes_per_second_back = 1 << 30;
  for (int day = 0; day < 5; ++day) {
    const double at = day * 86400 + 1.0 / 3;
    for (int i = 0; i < 4; ++i) {
      Copy(CopyWay::kOut, MiB(1), at + 2e-3 * i);
      Copy(CopyWay::kBack, MiB(1), at + 2e-3 * i + 1e-3);
    }
    RunAndPoll();
    EXPECT_NEAR(Out() / (1 << 30), 1, 1e-5);
    EXPECT_NEAR(Back() / (1 << 30), 1, 1e-5);
    EXPECT_EQ(OutContended(), 0);
    EXPECT_EQ(BackContended(), 0);
  }
}

TEST_F(CudaMeterTest, WhatCannotBeTimedIsCopiedNoneTheLess) {
  for (int64_t k = 0; k < 40; ++k) {
    cuda_.FailCall(cuda_.calls() + k, cudaErrorUnknown);
    const Extent extent = *slab_->Take(MiB(1));
    std::vector<char> there(1 << 20, static_cast<char>(k));
    const auto copy =
        lanes_->Out(there.data(), extent, MiB(1), cuda_.NewStream());
    RunAndPoll();
    if (copy.ok()) {
      EXPECT_EQ(slab_->At(extent.offset)[1000], k);
    }
    lanes_->Give(extent);
    cuda_.FailCall(-1, cudaSuccess);
    RunAndPoll();
  }
  EXPECT_DOUBLE_EQ(Out(), 1 << 20);
}

}  // namespace
}  // namespace ebbtide
