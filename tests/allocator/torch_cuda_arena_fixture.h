// A program of steps on the simulated device, whose arena is looked at.
#ifndef EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_ARENA_FIXTURE_H_
#define EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_ARENA_FIXTURE_H_

#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_arena.h"
#include "allocator/torch_cuda_books.h"
#include "gtest/gtest.h"
#include "tests/allocator/torch_cuda_steps.h"
#include "tests/cudasim/control.h"

namespace ebbtide {

inline constexpr int64_t kMiB = 1 << 20;
inline constexpr c10::DeviceIndex kDevice = 0;

inline int64_t Rounded(int64_t size) { return (size + 511) / 512 * 512; }

// A program of steps that are alike, and what it has, by its own books.
class TorchCudaArenaTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cudasim_set_capacity(uint64_t{1} << 30);
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    if (!CudaAllocator::IsInPlace()) {
      ASSERT_TRUE(CudaAllocator::Install({}).ok());
    }
  }
  void SetUp() override {
    CudaAllocator::SetBudget(kDevice, Bytes{64 * kMiB});
    native::emptyCache();
    native::resetPeakStats(kDevice);
    native::resetAccumulatedStats(kDevice);
  }
  // Whatever state it is in, the arena forgets its steps.
  void TearDown() override {
    held_.clear();
    for (int i = 0; i < StepArena::kBadSteps; ++i) {
      BeginStep(kDevice, /*plan=*/0);
    }
    EXPECT_EQ(Facts().pages.planned, Bytes{0});
    EXPECT_EQ(Facts().pages.alive, Bytes{0});
    EXPECT_EQ(BooksOf(kDevice).ledger().live(), Bytes{0});
    CudaAllocator::SetBudget(kDevice, kNoBudget);
  }

  static StepArena::Facts Facts() {
    const DeviceArena* const arena = CudaAllocator::ArenaOf(kDevice);
    return arena == nullptr ? StepArena::Facts() : arena->facts();
  }
  static c10::DataPtr Allocate(int64_t size) {
    return c10::GetAllocator(c10::DeviceType::CUDA)->allocate(size);
  }
  static c10::CachingDeviceAllocator::DeviceStats Stats() {
    return native::getDeviceStats(kDevice);
  }

  void Ask(int key, int64_t size) {
    held_[key] = {Allocate(size), size};
    live_ += Rounded(size);
    asked_ += size;
    peak_ = std::max(peak_, live_);
    ++allocations_;
  }
  void Free(int key) {
    const auto found = held_.find(key);
    if (found == held_.end()) return;
    live_ -= Rounded(found->second.second);
    asked_ -= found->second.second;
    held_.erase(found);
  }
  // Half of the third request, which lives into the next step, is asked for.
  void Step(int64_t size = 200'000) {
    BeginStep(kDevice, /*plan=*/1);
    Ask(0, size);
    Free(2);
    Ask(1, 2 * size);
    Free(0);
    Ask(3, 3 * size);
    Free(1);
    Ask(2, size / 2);
    Free(3);
  }
  void StepUntilItServes() {
    for (int i = 0; i < 20 && Facts().state != StepArena::State::kServing; ++i)
      Step();
    ASSERT_EQ(Facts().state, StepArena::State::kServing) << Facts().reason;
  }
  std::map<int, std::pair<c10::DataPtr, int64_t>> held_;
  int64_t live_ = 0;
  int64_t asked_ = 0;
  int64_t peak_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_ARENA_FIXTURE_H_
