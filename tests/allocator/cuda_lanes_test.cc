#include "allocator/cuda_lanes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/fake_cuda.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

using State = CudaCopy::State;

// Memory of the device, with a pattern.
std::vector<char> Pattern(Bytes size, int seed) {
  std::vector<char> bytes(Count(size));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (seed + i) * 131 >> 3;
  return bytes;
}

class CudaLanesTest : public testing::Test {
 protected:
  void Open(Bytes limit, Bytes chunk, int device = 0) {
    slab_ = *PinnedSlab::Open(
        cuda_.api(), {.limit = limit, .ahead = Bytes{0}, .chunk = chunk});
    auto lanes = CudaLanes::Open(cuda_.api(), slab_.get(), device);
    ASSERT_TRUE(lanes.ok()) << lanes.status();
    lanes_ = *std::move(lanes);
    out_ = cuda_.Made(cuda_.devices_of_made.size() - 2);
    back_ = cuda_.Made(cuda_.devices_of_made.size() - 1);
  }
  void SetUp() override { Open(MiB(4), KiB(256)); }
  void TearDown() override {
    lanes_.reset();
    slab_.reset();
  }
  std::shared_ptr<CudaCopy> Out(const std::vector<char>& from, Extent to) {
    auto copy = lanes_->Out(from.data(), to, SizeOf(from), program_);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return *std::move(copy);
  }
  std::shared_ptr<CudaCopy> Back(Extent from, std::vector<char>* to) {
    auto copy = lanes_->Back(from, to->data(), SizeOf(*to), program_);
    EXPECT_TRUE(copy.ok()) << copy.status();
    return *std::move(copy);
  }
  Extent MustTake(Bytes size) {
    const auto extent = lanes_->Take(size);
    EXPECT_TRUE(extent.ok()) << extent.status();
    return *extent;
  }
  static Bytes SizeOf(const std::vector<char>& bytes) {
    return Bytes{static_cast<int64_t>(bytes.size())};
  }

  FakeCuda cuda_;
  cudaStream_t program_ = cuda_.NewStream();
  std::unique_ptr<PinnedSlab> slab_;
  std::unique_ptr<CudaLanes> lanes_;
  cudaStream_t out_;
  cudaStream_t back_;
};

TEST_F(CudaLanesTest, WhatGoesOutComesBack) {
  for (const int64_t size : {1, 4095, 262144, 300'001, 2 << 20}) {
    const std::vector<char> there = Pattern(Bytes{size}, 5);
    std::vector<char> here(size, 0);
    const Extent extent = MustTake(Bytes{size});
    const auto out = Out(there, extent);
    EXPECT_EQ(out->state(), State::kPending);
    cuda_.Run();
    EXPECT_EQ(out->state(), State::kDone);
    const auto back = Back(extent, &here);
    cuda_.Run();
    EXPECT_EQ(back->state(), State::kDone);
    EXPECT_EQ(here, there);
  }
}

TEST_F(CudaLanesTest, CopiesEndAtPartsAndAtRegistrations) {
  TearDown();
  Open(MiB(64), MiB(20));
  ASSERT_TRUE(slab_->Take(MiB(1)).ok());
  const std::vector<char> there = Pattern(MiB(40), 1);
  std::vector<char> here(there.size());
  const Extent extent = MustTake(MiB(40));
  Out(there, extent);
  // Chunks of the slab end at 20, 40 and 60 MiB; the extent begins at 1.
  const std::vector<size_t> parts = {16 << 20, 3 << 20, 16 << 20, 4 << 20,
                                     1 << 20};
  EXPECT_EQ(cuda_.parts, parts);
  cuda_.parts.clear();
  Back(extent, &here);
  EXPECT_EQ(cuda_.parts, parts);
  cuda_.Run();
  EXPECT_EQ(here, there);
}

TEST_F(CudaLanesTest, ACopyOutWaitsForTheProducer) {
  std::vector<char> there(1000, 0);
  const std::vector<char> made = Pattern(Bytes{1000}, 3);
  cuda_.Launch(program_,
               [&] { std::copy(made.begin(), made.end(), there.begin()); });
  const Extent extent = MustTake(Bytes{1000});
  cuda_.Hold(program_);
  const auto out = Out(there, extent);
  cuda_.Run();
  EXPECT_EQ(out->state(), State::kPending);
  cuda_.Hold(program_, false);
  cuda_.Run();
  EXPECT_EQ(out->state(), State::kDone);
  EXPECT_EQ(std::memcmp(slab_->At(extent.offset), made.data(), 1000), 0);
}

TEST_F(CudaLanesTest, WhatChangesTheSourceIsOrderedAfterTheCopy) {
  std::vector<char> there = Pattern(Bytes{1000}, 3);
  const std::vector<char> before = there;
  const Extent extent = MustTake(Bytes{1000});
  cuda_.Hold(out_);
  const auto out = Out(there, extent);
  ASSERT_TRUE(lanes_->OrderAfter(program_, *out).ok());
  bool changed = false;
  cuda_.Launch(program_, [&] {
    changed = true;
    std::fill(there.begin(), there.end(), 9);
  });
  cuda_.Run();
  EXPECT_FALSE(changed);
  cuda_.Hold(out_, false);
  cuda_.Run();
  EXPECT_TRUE(changed);
  EXPECT_EQ(std::memcmp(slab_->At(extent.offset), before.data(), 1000), 0);
}

TEST_F(CudaLanesTest, ACopyBackWaitsForWhoUsedTheDestination) {
  const std::vector<char> there = Pattern(Bytes{1000}, 3);
  std::vector<char> here(1000, 7), seen;
  const Extent extent = MustTake(Bytes{1000});
  Out(there, extent);
  cuda_.Run();
  cuda_.Launch(program_, [&] { seen = here; });
  cuda_.Hold(program_);
  const auto back = Back(extent, &here);
  cuda_.Run();
  EXPECT_EQ(back->state(), State::kPending);
  EXPECT_EQ(here, std::vector<char>(1000, 7));
  cuda_.Hold(program_, false);
  cuda_.Run();
  EXPECT_EQ(seen, std::vector<char>(1000, 7));
  EXPECT_EQ(here, there);
}

TEST_F(CudaLanesTest, ACopyBackWaitsForTheCopyOutOfItsBytes) {
  const std::vector<char> there = Pattern(Bytes{1000}, 3);
  std::vector<char> here(1000), other_here(1000);
  const Extent extent = MustTake(Bytes{1000});
  const Extent other = MustTake(Bytes{1000});
  Out(there, other);
  cuda_.Run();
  cuda_.Hold(out_);
  Out(there, extent);
  const auto free = Back(other, &other_here);
  const auto back = Back(extent, &here);
  cuda_.Run();
  EXPECT_EQ(free->state(), State::kDone);  // other bytes need not wait
  EXPECT_EQ(back->state(), State::kPending);
  cuda_.Hold(out_, false);
  cuda_.Run();
  EXPECT_EQ(here, there);
}

TEST_F(CudaLanesTest, BytesAreOverwrittenOnlyAfterTheyCameBack) {
  const std::vector<char> first = Pattern(Bytes{1000}, 3);
  const std::vector<char> second = Pattern(Bytes{1000}, 4);
  std::vector<char> here(1000);
  const Extent extent = MustTake(Bytes{1000});
  Out(first, extent);
  cuda_.Hold(back_);
  Back(extent, &here);
  Out(second, extent);
  cuda_.Run();
  cuda_.Hold(back_, false);
  cuda_.Run();
  EXPECT_EQ(here, first);
  EXPECT_EQ(std::memcmp(slab_->At(extent.offset), second.data(), 1000), 0);
}

TEST_F(CudaLanesTest, AnExtentGivenBackIsKeptUntilItsCopiesHaveEnded) {
  const std::vector<char> there = Pattern(MiB(4), 3);
  std::vector<char> here(there.size());
  const Extent extent = MustTake(MiB(4));
  Out(there, extent);
  Back(extent, &here);
  lanes_->Give(extent);
  EXPECT_EQ(lanes_->kept_back(), MiB(4));
  EXPECT_FALSE(lanes_->Take(Bytes{1}).ok());
  cuda_.Hold(back_);
  cuda_.Run();  // the way out has ended
  EXPECT_FALSE(lanes_->Take(Bytes{1}).ok());
  cuda_.Hold(back_, false);
  cuda_.Run();
  EXPECT_TRUE(lanes_->Take(MiB(4)).ok());
  EXPECT_EQ(lanes_->kept_back(), Bytes{0});
  EXPECT_EQ(here, there);
}

TEST_F(CudaLanesTest, AnExtentThatNothingTouchesIsFreeAtOnce) {
  cuda_.Hold(out_);
  const std::vector<char> there(1000);
  Out(there, MustTake(Bytes{1000}));
  const Extent extent = MustTake(MiB(3));
  lanes_->Give(extent);
  EXPECT_EQ(lanes_->kept_back(), Bytes{0});
  EXPECT_EQ(MustTake(MiB(3)).offset, extent.offset);
  cuda_.Hold(out_, false);
  cuda_.Run();
}

TEST_F(CudaLanesTest, TheHostWaitsWhereItSaysSo) {
  const std::vector<char> there = Pattern(Bytes{1000}, 3);
  const Extent extent = MustTake(Bytes{1000});
  const auto out = Out(there, extent);
  EXPECT_EQ(out->state(), State::kPending);
  EXPECT_TRUE(lanes_->Wait(*out).ok());
  EXPECT_EQ(out->state(), State::kDone);
}

TEST_F(CudaLanesTest, TheEndWaitsForCopiesAndGivesBackWhatWasKept) {
  const std::vector<char> there = Pattern(Bytes{1000}, 3);
  const Extent extent = MustTake(Bytes{1000});
  const auto out = Out(there, extent);
  lanes_->Give(extent);
  lanes_.reset();
  EXPECT_EQ(out->state(), State::kDone);
  EXPECT_EQ(std::memcmp(slab_->At(0), there.data(), 1000), 0);
  EXPECT_EQ(slab_->Stats().used, Bytes{0});
}

TEST_F(CudaLanesTest, MoreThanTheExtentIsRefused) {
  std::vector<char> there(1025);
  const Extent extent = MustTake(Bytes{1000});  // 1024
  const int64_t calls = cuda_.calls();
  EXPECT_EQ(
      lanes_->Out(there.data(), extent, Bytes{1025}, program_).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      lanes_->Back(extent, there.data(), Bytes{0}, program_).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cuda_.calls(), calls);
}

// Also, the default stream is that of the lanes' device.
TEST_F(CudaLanesTest, EverythingIsMadeOnTheDeviceOfTheLanes) {
  TearDown();
  cuda_.devices_of_made.clear();
  slab_ = *PinnedSlab::Open(cuda_.api(), {.limit = MiB(1), .device = 1});
  lanes_ = *CudaLanes::Open(cuda_.api(), slab_.get(), 1);
  program_ = nullptr;
  const std::vector<char> there = Pattern(Bytes{1000}, 3);
  std::vector<char> here(1000);
  const Extent extent = MustTake(Bytes{1000});
  Out(there, extent);
  const auto back = Back(extent, &here);
  EXPECT_TRUE(lanes_->OrderAfter(nullptr, *back).ok());
  EXPECT_EQ(FakeCuda::current_device(), 0);
  cuda_.Run();
  EXPECT_EQ(here, there);
  EXPECT_GE(cuda_.devices_of_made.size(), 4u);
  for (const int device : cuda_.devices_of_made) EXPECT_EQ(device, 1);
}

TEST_F(CudaLanesTest, ACaptureElsewhereIsLeftAlone) {
  cuda_.captures_elsewhere = true;
  const std::vector<char> there(1 << 20);  // enough to be timed
  std::vector<char> here(1 << 20);
  const Extent extent = MustTake(MiB(1));
  const auto out = Out(there, extent);
  Back(extent, &here);
  out->state();
  lanes_->Give(extent);
  EXPECT_TRUE(lanes_->Wait(*out).ok());
  lanes_->WaitForAll();
  EXPECT_GT(lanes_->Bandwidth(CopyWay::kOut), 0);
  TearDown();
}

TEST_F(CudaLanesTest, NoLockIsHeldWhileCudaIsCalled) {
  std::vector<std::future<void>> asked;  // they end at the end at the latest
  bool stuck = false;
  cuda_.on_call = [&] {
    if (stuck) return;
    asked.push_back(std::async(std::launch::async, [&] {
      lanes_->kept_back();
      slab_->Stats();
    }));
    stuck = asked.back().wait_for(std::chrono::seconds(5)) !=
            std::future_status::ready;
  };
  const std::vector<char> there(2 << 20);
  std::vector<char> here(2 << 20);
  const Extent extent = MustTake(MiB(2));
  const auto out = Out(there, extent);
  const auto back = Back(extent, &here);
  EXPECT_TRUE(lanes_->OrderAfter(program_, *back).ok());
  EXPECT_TRUE(lanes_->Wait(*out).ok());
  lanes_->Give(extent);
  lanes_->WaitForAll();
  lanes_->Poll();
  cuda_.on_call = nullptr;
  EXPECT_FALSE(stuck);
  EXPECT_GT(asked.size(), 30u);
}

TEST_F(CudaLanesTest, AChildOfForkFailsInsteadOfWaiting) {
  std::vector<char> there(1000);
  const Extent extent = MustTake(Bytes{1000});
  auto out = Out(there, extent);
  const pid_t child = fork();
  if (child == 0) {
    const int64_t calls = cuda_.calls();
    const auto failed = absl::StatusCode::kFailedPrecondition;
    const bool right =
        lanes_->Out(there.data(), extent, Bytes{1}, program_).status().code() ==
            failed &&
        lanes_->OrderAfter(program_, *out).code() == failed &&
        lanes_->Wait(*out).code() == failed &&
        lanes_->Take(Bytes{1}).status().code() == failed;
    lanes_->Give(extent);
    lanes_->WaitForAll();
    lanes_.reset();
    out.reset();
    _exit(right && cuda_.calls() == calls ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(lanes_->Wait(*out).ok());
}

}  // namespace
}  // namespace ebbtide
