// On the simulated device: an arena beside PyTorch's own allocator.
#include "allocator/torch_cuda_arena.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_books.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/torch_cuda_arena_fixture.h"
#include "tests/allocator/torch_cuda_steps.h"
#include "tests/cudasim/control.h"

namespace ebbtide {
namespace {

using State = StepArena::State;

TEST_F(TorchCudaArenaTest, StatisticsTellOfItsBlocksAsOfAnyOthers) {
  for (int i = 0; i < 36; ++i) {
    // Plans end and begin.
    Step(i % 18 < 8 ? 200'000 : 150'000 + 1'000 * i);
    const auto stats = Stats();
    EXPECT_EQ(stats.allocated_bytes[0].current, live_) << i;
    EXPECT_EQ(stats.active_bytes[0].current, live_) << i;
    EXPECT_EQ(stats.requested_bytes[0].current, asked_) << i;
    EXPECT_EQ(stats.allocation[0].current, static_cast<int64_t>(held_.size()));
    EXPECT_EQ(stats.allocated_bytes[0].peak, peak_) << i;
    EXPECT_EQ(stats.allocation[0].allocated, allocations_) << i;
    EXPECT_EQ(stats.allocation[0].freed,
              allocations_ - static_cast<int64_t>(held_.size()));
    EXPECT_EQ(stats.allocated_bytes[1].current, live_) << "all are small";
    EXPECT_EQ(BooksOf(kDevice).ledger().live(), Bytes{live_});
    EXPECT_EQ(BooksOf(kDevice).reserved(),
              Bytes{stats.reserved_bytes[0].current});
    if (i == 10 || i == 20) {
      native::resetPeakStats(kDevice);
      peak_ = live_;
    }
  }
  EXPECT_GT(Facts().retreats, 0);
}

TEST_F(TorchCudaArenaTest, ASnapshotHasItsBlocksAndItsHoles) {
  StepUntilItServes();
  Ask(7, 100);
  const auto snapshot = native::snapshot();
  int64_t live = 0;
  int64_t reserved = 0;
  size_t allocated = 0;
  for (const auto& segment : snapshot.segments) {
    int64_t blocks = 0;
    for (const auto& block : segment.blocks) {
      blocks += static_cast<int64_t>(block.size);
      if (!block.allocated) continue;
      ++allocated;
      live += static_cast<int64_t>(block.size);
    }
    EXPECT_EQ(blocks, static_cast<int64_t>(segment.total_size));
    reserved += blocks;
  }
  EXPECT_EQ(live, live_);
  EXPECT_EQ(reserved, Stats().reserved_bytes[0].current);
  EXPECT_EQ(allocated, held_.size());
}

TEST_F(TorchCudaArenaTest, HistoryHasItsBlocksAndNotItsMemory) {
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  native::recordHistory(true, nullptr, 1000, native::RecordContext::NEVER,
                        /*clearHistory=*/true, {});
  StepUntilItServes();
  for (int i = 0; i < 3; ++i) Step();
  const auto trace = native::snapshot().device_traces.at(kDevice);
  std::map<size_t, size_t> live;
  int64_t asks = 0;
  for (const Entry& entry : trace) {
    if (entry.action_ == Entry::ALLOC) {
      ++asks;
      EXPECT_TRUE(live.emplace(entry.addr_, entry.size_).second);
    } else if (entry.action_ == Entry::FREE_COMPLETED) {
      const auto found = live.find(entry.addr_);
      ASSERT_NE(found, live.end());
      EXPECT_EQ(found->second, entry.size_);
      live.erase(found);
    }
  }
  EXPECT_EQ(asks, allocations_);
  EXPECT_EQ(live.size(), held_.size());
  EXPECT_TRUE(std::is_sorted(
      trace.begin(), trace.end(),
      [](const Entry& a, const Entry& b) { return a.time_.t_ < b.time_.t_; }));
  native::recordHistory(false, nullptr, 0, native::RecordContext::NEVER, true,
                        {});
}

TEST_F(TorchCudaArenaTest, ItServesNoPrivatePools) {
  StepUntilItServes();
  const c10::MempoolId_t pool = {1, 0};
  native::beginAllocateToPool(kDevice, pool, [](cudaStream_t) { return true; });
  const auto before = Facts().pages.counts;
  c10::DataPtr captured = Allocate(200'000);
  EXPECT_EQ(Facts().pages.counts.planned, before.planned);
  EXPECT_TRUE(BooksOf(kDevice).IsPrivate(captured.get()));
  captured = {};
  native::endAllocateToPool(kDevice, pool);
  native::releasePool(kDevice, pool);
  native::emptyCache();
}

TEST_F(TorchCudaArenaTest, ABlockThatAnotherStreamUsesIsNotReusedBeforeIt) {
  StepUntilItServes();
  const auto other = c10::cuda::getStreamFromPool(false, kDevice);
  BeginStep(kDevice, /*plan=*/1);
  cudasim_set_schedule(CUDASIM_LATE);
  Ask(0, 200'000);
  Free(2);
  Ask(1, 400'000);
  void* const first = held_[0].first.get();
  // The other stream writes to the block, late, and this one to what follows.
  ASSERT_EQ(cudaMemsetAsync(first, 1, 200'000, other.stream()), cudaSuccess);
  native::recordStream(held_[0].first, other);
  Free(0);
  Ask(3, 600'000);
  Free(1);
  Ask(2, 100'000);
  Free(3);
  BeginStep(kDevice, /*plan=*/1);
  Ask(0, 200'000);
  ASSERT_EQ(held_[0].first.get(), first);
  ASSERT_EQ(cudaMemsetAsync(first, 2, 200'000,
                            c10::cuda::getCurrentCUDAStream().stream()),
            cudaSuccess);
  c10::cuda::getCurrentCUDAStream().synchronize();
  other.synchronize();
  char byte = 0;
  ASSERT_EQ(cudaMemcpy(&byte, first, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(byte, 2);
  cudasim_set_schedule(CUDASIM_EAGER);
}

TEST_F(TorchCudaArenaTest, SharingABlockWithAnotherProcessIsRefused) {
  Ask(0, 1000);
  size_t size = 0;
  void* const block = held_[0].first.get();
  EXPECT_THROW(native::getBaseAllocation(block, &size), c10::Error);
  EXPECT_THROW(native::get()->shareIpcHandle(block), c10::Error);
}

TEST_F(TorchCudaArenaTest, EmptyingTheCacheGivesFreePagesBack) {
  Ask(0, 10 * kMiB);
  Ask(1, 1000);
  Free(0);
  EXPECT_GE(Stats().reserved_bytes[0].current, 10 * kMiB);
  native::emptyCache();
  EXPECT_EQ(Stats().reserved_bytes[0].current, 2 * kMiB);
}

TEST_F(TorchCudaArenaTest, WhatTheNativeAllocatorHasIdleServesTheArena) {
  Ask(0, 10 * kMiB);
  native::raw_delete(native::raw_alloc(40 * kMiB));
  EXPECT_EQ(Stats().reserved_bytes[0].current, 50 * kMiB);
  Ask(1, 50 * kMiB);
  EXPECT_EQ(Facts().pages.alive, Bytes{60 * kMiB});
}

TEST_F(TorchCudaArenaTest, EmptyingTheCacheGivesPagesOfThePlanBack) {
  StepUntilItServes();
  held_.clear();
  native::emptyCache();
  EXPECT_EQ(Facts().pages.planned, Bytes{0});
  const int64_t before = Facts().pages.counts.planned;
  Step();
  EXPECT_EQ(Facts().state, State::kServing);
  EXPECT_GT(Facts().pages.counts.planned, before);
}

// The device calls of a served step: the golden file has them.
TEST_F(TorchCudaArenaTest, AServedStepMakesTheCallsThatTheFileHas) {
  const auto other = c10::cuda::getStreamFromPool(false, kDevice);
  const auto step_on_two_streams = [&] {
    BeginStep(kDevice, /*plan=*/1);
    for (int i = 0; i < 3; ++i) {
      Ask(2 * i, 300'000);
      if (i == 1) native::recordStream(held_[2].first, other);
      Free(2 * i);
      const c10::cuda::CUDAStreamGuard there(other);
      Ask(2 * i + 1, 200'000);
      Free(2 * i + 1);
    }
  };
  std::string text;
  const auto count = [&text](const std::string& what, auto run) {
    cudasim_trace_calls();
    run();
    std::map<std::string, int> calls;
    for (size_t n = 0; const char* call = cudasim_traced(n); ++n) {
      const std::string all(call);
      ++calls[all.substr(0, all.find(' '))];
    }
    text += what + ":";
    for (const auto& [call, times] : calls) {
      text += " " + call + " " + std::to_string(times);
    }
    text += "\n";
  };
  StepUntilItServes();
  for (int i = 0; i < 4; ++i) Step();
  count("one stream", [&] { Step(); });
  held_.clear();
  for (int i = 0; i < StepArena::kBadSteps; ++i) {
    BeginStep(kDevice, /*plan=*/0);
  }
  for (int i = 0; i < 12; ++i) step_on_two_streams();
  ASSERT_EQ(Facts().state, State::kServing);
  count("two streams", step_on_two_streams);
  std::ifstream golden(EBBTIDE_TEST_DATA "/arena_steady.txt");
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(golden), {}));
}

}  // namespace
}  // namespace ebbtide
