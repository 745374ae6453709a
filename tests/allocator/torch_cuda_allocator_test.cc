// On the simulated device: the allocator below ours is PyTorch's own.
#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_books.h"

#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
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

// Blocks that the handler may free, oldest first, and the bytes that it was
// asked for.
struct Evictable {
  std::vector<c10::DataPtr> blocks;
  std::vector<Bytes> asked;
};
Evictable& All() {
  static auto& all = *new Evictable;
  return all;
}

bool Evict(c10::DeviceIndex device, Bytes needed, bool /*is_locked*/) {
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
    // Blocks older than our allocator are in the books.
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
    EXPECT_EQ(Books().reserved(), Reserved());
    EXPECT_EQ(Books().ledger().live(), Bytes{0});
    EXPECT_EQ(Books().reserved(), Bytes{0});
  }

  static DeviceBooks& Books() { return BooksOf(kDevice); }
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
  EXPECT_EQ(Books().ledger().live(), MiB(60));
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

TEST_F(TorchCudaAllocatorTest, RequestsThatFitIntoFreePiecesEvictNothing) {
  CudaAllocator::SetBudget(kDevice, MiB(40));
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(Allocate(MiB(4)));
  for (int i = 0; i < 10; i += 2) blocks[i] = {};
  const c10::DataPtr more = Allocate(MiB(20));
  EXPECT_THAT(All().asked, testing::IsEmpty());
  EXPECT_EQ(Reserved(), MiB(40));
}

TEST_F(TorchCudaAllocatorTest, FreePagesGoBeforeAnythingIsEvicted) {
  CudaAllocator::SetBudget(kDevice, MiB(40));
  Allocate(MiB(40));
  // A raw block is the native allocator's.
  void* const raw = native::raw_alloc(30 * kMiB);
  EXPECT_THAT(All().asked, testing::IsEmpty());
  EXPECT_EQ(Reserved(), MiB(40));
  native::raw_delete(raw);
  const c10::DataPtr more = Allocate(MiB(38));
  EXPECT_THAT(All().asked, testing::IsEmpty());
  EXPECT_LE(Reserved(), MiB(40));
}

TEST_F(TorchCudaAllocatorTest, BlocksThatOtherStreamsUseAreReusedBehindThem) {
  CudaAllocator::SetBudget(kDevice, MiB(10));
  c10::DataPtr used = Allocate(MiB(9));
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  ASSERT_EQ(cudaMemsetAsync(used.get(), 0, 9 * kMiB, side), cudaSuccess);
  native::recordStream(used, side);
  void* const block = used.get();
  used = {};
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
