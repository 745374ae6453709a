// On the simulated device: what an arena has of PyTorch's allocator.
#include "allocator/torch_cuda_device_arena.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/torch_cuda_arena_fixture.h"

namespace ebbtide {
namespace {

class TorchCudaArenaMemoryTest : public TorchCudaArenaTest {};

// The native allocator takes a segment of 20 MiB for the first two.
TEST_F(TorchCudaArenaMemoryTest, WhatThePlanLeavesOfAHoleIsTheNativeOnes) {
  Ask(10, 8 * kMiB);
  Ask(11, 2 * kMiB);
  const void* const hole = held_[10].first.get();
  Free(10);
  const int64_t reserved = Stats().reserved_bytes[0].current;
  StepUntilItServes();
  Step();
  EXPECT_LT(Facts().size, Bytes{2 * kMiB});
  Ask(12, 5 * kMiB);
  Ask(13, 8 * kMiB);
  EXPECT_EQ(held_[12].first.get(),
            static_cast<const char*>(hole) + kMiB + kArenaGrain);
  EXPECT_EQ(Stats().reserved_bytes[2].current, reserved);
  EXPECT_EQ(Stats().allocated_bytes[0].current, live_);
  EXPECT_EQ(Stats().requested_bytes[0].current, asked_);
}

// Of steps whose blocks are small, in one segment for those.
TEST_F(TorchCudaArenaMemoryTest, WithoutRoomInTheBudgetItServesFromSmallHoles) {
  const c10::DataPtr large = Allocate(40 * kMiB);
  CudaAllocator::SetBudget(kDevice, Bytes{43 * kMiB});
  StepUntilItServes();
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_LE(Facts().size, Bytes{2 * kMiB});
  EXPECT_EQ(Facts().counts.planned, 4 * 4);
  EXPECT_EQ(Stats().reserved_bytes[0].current, 42 * kMiB);
  EXPECT_EQ(Stats().allocated_bytes[0].current, 40 * kMiB + live_);
}

TEST_F(TorchCudaArenaMemoryTest, WithoutRoomInTheBudgetTheNativeOneGoesOn) {
  const c10::DataPtr large = Allocate(40 * kMiB);
  for (int i = 0; i < 8; ++i) {
    CudaAllocator::SetBudget(kDevice, Bytes{43 * kMiB});
    CudaAllocator::BeginStep(kDevice, /*wants_arena=*/true);
    CudaAllocator::SetBudget(kDevice, Bytes{64 * kMiB});
    Ask(0, 2 * kMiB);
    Free(0);
  }
  EXPECT_EQ(Facts().size, Bytes{0});
  EXPECT_THAT(Facts().reason,
              testing::HasSubstr("missing for it in the budget"));
}

// A job died of an arena that had what it needed (resnet within 214 MiB).
TEST_F(TorchCudaArenaMemoryTest, WhereNothingElseHasRoomItLeavesForARequest) {
  StepUntilItServes();
  for (int i = 0; i < 3; ++i) Step();
  const Bytes before = Facts().size;
  const int64_t reserved = Stats().reserved_bytes[0].current;
  EXPECT_THROW(Allocate(64 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(Facts().size, before) << "that would not fit without it";
  // Below a budget that this fits in if the arena keeps nothing.
  Free(2);
  Ask(10, 64 * kMiB - reserved + 2 * kMiB);
  EXPECT_EQ(Facts().state, StepArena::State::kLeaving);
  EXPECT_EQ(Facts().size, Bytes{0});
  EXPECT_LE(Stats().reserved_bytes[0].current, 64 * kMiB);
  EXPECT_EQ(Stats().allocated_bytes[0].current, live_);
  Step();
  EXPECT_EQ(Stats().allocated_bytes[0].current, live_);
}

TEST_F(TorchCudaArenaMemoryTest, ItReservesWhatThePlanIsHigh) {
  StepUntilItServes();
  const int64_t bound = Rounded(400'000) + Rounded(600'000);
  EXPECT_EQ(Facts().bound, Bytes{bound});
  EXPECT_EQ(Facts().height, Bytes{bound});
  for (int i = 0; i < 10; ++i) Step();
  EXPECT_EQ(Facts().counts.planned, 4 * 11);
  EXPECT_EQ(Facts().carried, 0);
  EXPECT_EQ(Facts().counts.fallback + Facts().counts.strays, 0);
}

}  // namespace
}  // namespace ebbtide
