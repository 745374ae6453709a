// The calls that copies of CudaLanes take.
#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/cuda_lanes.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_cuda.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

constexpr Bytes kSize{1000};

class CudaLanesCallsTest : public testing::Test {
 protected:
  std::shared_ptr<CudaCopy> Out(bool is_next = false) {
    auto copy =
        lanes_->Out(there_.data(), extent_, kSize, program_, {}, is_next);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return *std::move(copy);
  }
  std::shared_ptr<CudaCopy> Back() {
    auto copy = lanes_->Back(extent_, there_.data(), kSize, program_);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return *std::move(copy);
  }
  template <typename Act>
  int64_t CallsOf(const Act& act) {
    const int64_t before = cuda_.calls();
    act();
    return cuda_.calls() - before;
  }

  FakeCuda cuda_;
  const cudaStream_t program_ = cuda_.NewStream();
  const std::unique_ptr<PinnedSlab> slab_ = *PinnedSlab::Open(
      cuda_.api(), {.limit = MiB(1), .ahead = Bytes{0}, .chunk = KiB(64)});
  const std::unique_ptr<CudaLanes> lanes_ =
      *CudaLanes::Open(cuda_.api(), slab_.get(), 0);
  std::vector<char> there_ = std::vector<char>(Count(kSize), 'x');
  const Extent extent_ = *lanes_->Take(kSize);
};

TEST_F(CudaLanesCallsTest, EventsAreUsedAgain) {
  constexpr int kMost = CudaLanes::kPollAt;
  for (int i = 0; i < 4 * kMost; ++i) {
    Out();
    cuda_.Run();
  }
  EXPECT_LE(cuda_.live_events(), kMost + 2);
  cuda_.Run();
}

TEST_F(CudaLanesCallsTest, ACopyThatFollowsAnotherIsNotOrderedAgain) {
  Out();
  Out(/*is_next=*/true);  // has made its event
  // The copy, its event and the device that is asked for.
  const int64_t next = CallsOf([&] { Out(/*is_next=*/true); });
  const int64_t alone = CallsOf([&] { Out(); });
  EXPECT_LE(next + 2, alone);
  cuda_.Run();
}

TEST_F(CudaLanesCallsTest, OneQuestionShowsThatAllCopiesHaveEnded) {
  std::vector<std::shared_ptr<CudaCopy>> copies;
  copies.reserve(10);
  for (int i = 0; i < 10; ++i) copies.push_back(Out());
  cuda_.Run();
  // The capture mode there and back, and the question.
  EXPECT_EQ(CallsOf([&] { lanes_->Poll(); }), 3);
  for (const auto& copy : copies) EXPECT_TRUE(copy->was_seen_done());
}

TEST_F(CudaLanesCallsTest, FewQuestionsShowWhichCopiesHaveEnded) {
  for (int ended = 0; ended < 9; ++ended) {
    std::vector<std::shared_ptr<CudaCopy>> copies;
    copies.reserve(9);
    for (int i = 0; i < ended; ++i) copies.push_back(Out());
    cuda_.Run();
    cuda_.Hold(cuda_.Made(0));
    for (int i = ended; i < 9; ++i) copies.push_back(Out());
    EXPECT_LE(CallsOf([&] { lanes_->Poll(); }), 2 + 6);
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(copies[i]->was_seen_done(), i < ended) << i;
    }
    cuda_.Hold(cuda_.Made(0), false);
    cuda_.Run();
    lanes_->Poll();
  }
}

TEST_F(CudaLanesCallsTest, CopiesBackDoNotWaitForThoseThatHaveEnded) {
  for (int i = 0; i < CudaLanes::kPollAt / 2; ++i) Out();
  cuda_.Run();
  Back();  // which looks
  const int64_t after = CallsOf([&] { Back(); });
  const int64_t out = CallsOf([&] { Out(); });
  // Out is ordered behind the two copies back of the same bytes.
  EXPECT_EQ(out, after + 2);
  cuda_.Run();
}

}  // namespace
}  // namespace ebbtide
