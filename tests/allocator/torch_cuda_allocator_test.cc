// On the simulated device: the allocator below ours is PyTorch's own.
#include "allocator/torch_cuda_allocator.h"

#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "allocator/allocation_kind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cudasim/control.h"

namespace ebbtide {
namespace {

namespace native = c10::cuda::CUDACachingAllocator;

constexpr int64_t kMiB = 1 << 20;
constexpr c10::DeviceIndex kDevice = 0;

Bytes MiB(int64_t count) { return Bytes{count * kMiB}; }

// What the handler may free, oldest first, and what it was asked.
struct Evictable {
  std::vector<c10::DataPtr> blocks;
  std::vector<Bytes> asked;
};
Evictable& All() {
  static auto& all = *new Evictable;
  return all;
}

bool Evict(c10::DeviceIndex device, Bytes needed, Shortage) {
  EXPECT_EQ(device, kDevice);
  All().asked.push_back(needed);
  if (All().blocks.empty()) return false;
  All().blocks.erase(All().blocks.begin());
  return true;
}

std::string Explain(c10::DeviceIndex device, Bytes wanted) {
  EXPECT_EQ(device, kDevice);
  return wanted == MiB(30) ? "and a line below" : "";
}

class TorchCudaAllocatorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cudasim_set_capacity(uint64_t{1} << 30);
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    c10::DataPtr before = Allocate(MiB(5));
    ASSERT_TRUE(
        CudaAllocator::Install({.relieve = &Evict, .explain = &Explain}).ok());
    // What is older than ours is in the books.
    EXPECT_EQ(Books().ledger().live(), MiB(5));
    EXPECT_EQ(Books().reserved(), Reserved());
    EXPECT_GT(Reserved(), MiB(5));
    before = {};
    native::emptyCache();
  }
  void TearDown() override {
    All() = {};
    CudaAllocator::SetBudget(kDevice, kNoBudget);
    native::setMemoryFraction(1, kDevice);
    native::emptyCache();
    EXPECT_EQ(Books().ledger().live(), Bytes{0});
    EXPECT_EQ(Books().reserved(), Bytes{0});
  }

  static DeviceBooks& Books() { return CudaAllocator::Books(kDevice); }
  static c10::DataPtr Allocate(Bytes size) {
    return c10::GetAllocator(c10::DeviceType::CUDA)->allocate(Count(size));
  }
  static int64_t Failures() { return native::getDeviceStats(kDevice).num_ooms; }
  // As the native allocator counts them.
  static Bytes Reserved() {
    return Bytes{native::getDeviceStats(kDevice).reserved_bytes[0].current};
  }
};

TEST_F(TorchCudaAllocatorTest, BooksAgreeWithTheNativeStatistics) {
  const c10::DataPtr large = Allocate(MiB(30));
  const c10::DataPtr small = Allocate(Bytes{1000});
  EXPECT_EQ(Books().ledger().live(), MiB(30) + Bytes{1024});
  EXPECT_EQ(Books().reserved(), Reserved());
  EXPECT_EQ(Reserved(), MiB(32));
}

TEST_F(TorchCudaAllocatorTest, WhatIsAliveHasTheKindOfItsThread) {
  c10::DataPtr saved;
  {
    const AllocationKind kind(Kind::kSaved);
    saved = Allocate(MiB(3));
  }
  const c10::DataPtr other = Allocate(MiB(2));
  const BytesByKind live = Books().ledger().LiveByKind();
  EXPECT_EQ(live[static_cast<int>(Kind::kSaved)], MiB(3));
  EXPECT_EQ(live[static_cast<int>(Kind::kOther)], MiB(2));
}

TEST_F(TorchCudaAllocatorTest, WhatDoesNotFitIsPrecededByEvictions) {
  CudaAllocator::SetBudget(kDevice, MiB(64));
  for (int i = 0; i < 3; ++i) All().blocks.push_back(Allocate(MiB(20)));
  EXPECT_THAT(All().asked, testing::IsEmpty());
  const int64_t failures = Failures();
  const c10::DataPtr more = Allocate(MiB(40));
  EXPECT_EQ(All().blocks.size(), 1);
  EXPECT_LE(Reserved(), MiB(64));
  EXPECT_EQ(Failures(), failures);
}

TEST_F(TorchCudaAllocatorTest, WithNothingLeftTheErrorIsTheNativeOne) {
  CudaAllocator::SetBudget(kDevice, MiB(64));
  c10::DataPtr held = Allocate(MiB(40));
  EXPECT_THROW(Allocate(MiB(30)), c10::OutOfMemoryError);
  EXPECT_THAT(All().asked, testing::Not(testing::IsEmpty()));
  held = {};
  EXPECT_NE(Allocate(MiB(60)).get(), nullptr);
}

// The words of the error that a request of so many bytes ends with.
std::string ErrorOf(const std::function<void()>& request) {
  try {
    request();
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST_F(TorchCudaAllocatorTest, BelowTheNativeTextStandsWhatThePolicyTells) {
  CudaAllocator::SetBudget(kDevice, MiB(25));
  const std::string told = ErrorOf([] { Allocate(MiB(30)); });
  const std::string native = ErrorOf([] { Allocate(MiB(31)); });
  EXPECT_THAT(native, testing::StartsWith("CUDA out of memory. Tried to"));
  EXPECT_THAT(native, testing::HasSubstr("25.00 MiB allowed"));
  EXPECT_THAT(native, testing::Not(testing::HasSubstr("\n")));
  EXPECT_THAT(told, testing::StartsWith("CUDA out of memory. Tried to"));
  EXPECT_THAT(told, testing::EndsWith("\nand a line below"));
}

TEST_F(TorchCudaAllocatorTest, ABudgetOfWholeSegmentsCanBeUsedUp) {
  CudaAllocator::SetBudget(kDevice, MiB(62));
  const c10::DataPtr held = Allocate(MiB(40));
  const c10::DataPtr rest = Allocate(MiB(22));
  EXPECT_EQ(Reserved(), MiB(62));
}

// A job ran out of memory with 18 MiB of its budget left.
TEST_F(TorchCudaAllocatorTest, WhereNothingElseHelpsASegmentOf10MiBIsReserved) {
  CudaAllocator::SetBudget(kDevice, MiB(60));
  const c10::DataPtr large = Allocate(MiB(42));
  c10::DataPtr first = Allocate(MiB(9));
  EXPECT_FALSE(All().asked.empty()) << "what can go goes first";
  EXPECT_EQ(Reserved(), MiB(52));
  EXPECT_EQ(Books().ledger().live(), MiB(42 + 10));
  first = {};
  const c10::DataPtr smaller = Allocate(MiB(4));
  EXPECT_EQ(Reserved(), MiB(52)) << "where the first one was";
  EXPECT_EQ(Books().ledger().live(), MiB(42 + 4));
  EXPECT_THROW(Allocate(MiB(9)), c10::OutOfMemoryError);
  EXPECT_EQ(Books().reserved(), Reserved());
}

TEST_F(TorchCudaAllocatorTest, WhereOnlyFragmentsAreFreeMoreIsEvicted) {
  CudaAllocator::SetBudget(kDevice, MiB(40));
  // Two segments of 20 MiB; of each the larger half is free.
  std::vector<c10::DataPtr> halves;
  for (int i = 0; i < 2; ++i) {
    halves.push_back(Allocate(MiB(9)));
    All().blocks.push_back(Allocate(MiB(9)));
  }
  halves.clear();
  // Live bytes would fit: 18 and 16 of 40.
  const int64_t failures = Failures();
  const c10::DataPtr more = Allocate(MiB(16));
  EXPECT_EQ(All().blocks.size(), 1);
  EXPECT_LE(Reserved(), MiB(40));
  EXPECT_EQ(Failures(), failures);
}

// Of one kind of segment, as the native allocator tells; 0: it has none.
Bytes LargestHole(bool is_small) {
  size_t largest = 0;
  const auto snapshot = native::snapshot({0, 0}, /*include_traces=*/false);
  for (const auto& segment : snapshot.segments) {
    for (const auto& block : segment.blocks) {
      if (segment.is_large == is_small || block.active) continue;
      largest = std::max(largest, block.size);
    }
  }
  return Bytes{static_cast<int64_t>(largest)};
}

TEST_F(TorchCudaAllocatorTest, TheBooksKnowEveryHole) {
  CudaAllocator::SetBudget(kDevice, MiB(1000));
  const auto fits = [](Bytes size, bool is_small) {
    return Books().FindsRoom({.size = size,
                              .segment = MiB(1000000),
                              .is_small = is_small,
                              .stream = c10::cuda::getCurrentCUDAStream()});
  };
  std::mt19937 random(3);
  std::vector<c10::DataPtr> blocks;
  int holes = 0;
  for (int round = 0; round < 600; ++round) {
    if (random() % 2 == 0 && !blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      blocks.pop_back();
    } else if (blocks.size() < 40) {
      const int64_t size = random() % (random() % 3 == 0 ? 12 * kMiB : kMiB);
      blocks.push_back(Allocate(Bytes{1 + size}));
    }
    if (round % 100 == 99) native::emptyCache();
    for (const bool is_small : {false, true}) {
      const Bytes hole = LargestHole(is_small);
      EXPECT_FALSE(fits(hole + Bytes{512}, is_small)) << round;
      if (hole == Bytes{0}) continue;
      EXPECT_TRUE(fits(hole, is_small)) << round;
      ++holes;
    }
  }
  EXPECT_GT(holes, 1000);
}

TEST_F(TorchCudaAllocatorTest, WhatOtherStreamsAreLeavingIsWaitedFor) {
  // The native allocator does not look again after it has waited
  // (pytorch/pytorch#189504).
  CudaAllocator::SetBudget(kDevice, MiB(22));
  const c10::DataPtr held = Allocate(MiB(9));
  c10::DataPtr used = Allocate(MiB(9));
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  ASSERT_EQ(cudaMemsetAsync(used.get(), 0, 9 * kMiB, side), cudaSuccess);
  native::recordStream(used, side);
  void* const block = used.get();
  used = {};
  All().blocks.push_back(Allocate(Bytes{512}));
  EXPECT_EQ(Allocate(MiB(9)).get(), block);
  EXPECT_THAT(All().asked, testing::IsEmpty());
}

TEST_F(TorchCudaAllocatorTest, TheProgramsFractionStays) {
  native::setMemoryFraction(0.5, kDevice);
  CudaAllocator::SetBudget(kDevice, MiB(64));
  Allocate(MiB(1));
  EXPECT_EQ(native::getMemoryFraction(kDevice), 0.5);
  CudaAllocator::SetBudget(kDevice, MiB(900));
  EXPECT_THROW(Allocate(MiB(600)), c10::OutOfMemoryError);
  CudaAllocator::SetBudget(kDevice, kNoBudget);
  EXPECT_THROW(Allocate(MiB(600)), c10::OutOfMemoryError);
  native::setMemoryFraction(1, kDevice);
  EXPECT_NE(Allocate(MiB(600)).get(), nullptr);
}

TEST_F(TorchCudaAllocatorTest, ItIsDoneOnceAndSeenWhenItIsUndone) {
  EXPECT_EQ(CudaAllocator::Install({}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(CudaAllocator::IsInPlace());
  native::CUDAAllocator* const ours = native::allocator.exchange(nullptr);
  EXPECT_FALSE(CudaAllocator::IsInPlace());
  native::allocator = ours;
}

}  // namespace
}  // namespace ebbtide
