// Calls of the device fail, below programs on four streams: once, or twice in a
// row if a call is repeated.
#include <c10/cuda/CUDAFunctions.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/torch_cuda_steps.h"
#include "tests/allocator/torch_cuda_streams_fixture.h"

namespace ebbtide {
namespace {

using testing::Contains;
using testing::Key;

constexpr int kOutOfMemory = 2;
constexpr int64_t kNever = int64_t{1} << 40;

// Calls of the arena to the device.
const std::vector<std::string> kCalls = {
    "cuMemCreate",         "cuMemMap",
    "cuMemSetAccess",      "cuMemUnmap",
    "cuMemRelease",        "cudaEventRecord",
    "cudaEventQuery",      "cudaStreamWaitEvent",
    "cudaEventSynchronize"};

// Sizes times kScale are some MiB; some buffers are used by other streams, too,
// and the fourth by one that is not PyTorch's.
const std::vector<Buffer> kStep = {
    {.size = 16'384, .stream = 0, .until = 1, .other = 1},
    {.size = 10'000, .stream = 1, .until = 2},
    {.size = 14'000, .stream = 2, .until = 1, .other = 0},
    {.size = 16'384, .stream = 3, .until = 2, .other = kMutatedStreams},
    {.size = 6'000, .stream = 0, .until = 5},
    {.size = 24'000, .stream = 1, .until = 0, .other = 3},
    {.size = 9'000, .stream = 2, .until = 3},
    {.size = 20'000, .stream = 3, .until = 1}};
constexpr Bytes kBudget{14 * kMiB};

class TorchCudaFaultTest : public TorchCudaStreamsTest {
 protected:
  void SetUp() override {
    TorchCudaStreamsTest::SetUp();
    CudaAllocator::SetBudget(kDevice, kBudget);
    cudasim_set_schedule(CUDASIM_LATE);
  }
  void TearDown() override {
    cudasim_fail_one(kNever, kOutOfMemory, /*breaks=*/0);
    TorchCudaStreamsTest::TearDown();
  }

  // From the step in which the arena takes its memory to where it has given all
  // of it back. Without plans every second step has other sizes, so that pages
  // move.
  void RunProgram(bool wants_plan) {
    for (int i = 0; i < 6; ++i) {
      std::vector<Buffer> now = kStep;
      if (!wants_plan && i % 2 == 1) std::swap(now[2].size, now[5].size);
      RunStep(now, wants_plan);
    }
    was_served_ = Facts().state == StepArena::State::kServing;
    FreeAll();
    for (int i = 0; i < StepArena::kBadSteps; ++i) {
      BeginStep(kDevice, /*plan=*/0);
    }
    native::emptyCache();
  }

  // Nothing of the program is left, and the books say so.
  void CheckLeft(const CudasimStats& before, int64_t lost_pages = 0) {
    CheckWork();
    EXPECT_EQ(Facts().pages.alive, Bytes{0});
    EXPECT_EQ(Facts().pages.mapped, Bytes{0});
    EXPECT_EQ(Stats().allocated_bytes[0].current, 0);
    EXPECT_EQ(BooksOf(kDevice).ledger().live(), Bytes{0});
    EXPECT_EQ(BooksOf(kDevice).reserved(),
              Bytes{Stats().reserved_bytes[0].current});
    EXPECT_EQ(Device().live_allocations, before.live_allocations + lost_pages);
    EXPECT_EQ(Device().reservations, before.reservations);
  }

  bool was_served_ = false;
};

TEST_F(TorchCudaFaultTest, WhicheverCallFailsNothingIsLostOrLeftBehind) {
  for (const bool wants_plan : {false, true}) {
    RunProgram(wants_plan);
    ASSERT_EQ(was_served_, wants_plan);
    const CudasimStats before = Device();
    const int64_t moves = Facts().pages.moves;
    std::map<std::string, int> failed;
    bool is_over = false;
    for (int64_t call = 0; !is_over && !HasFailure(); ++call) {
      const uint64_t first = cudasim_all_calls();
      cudasim_fail_one(call, kOutOfMemory, /*breaks=*/0);
      RunProgram(wants_plan);
      is_over = cudasim_all_calls() - first <= static_cast<uint64_t>(call);
      if (is_over) break;
      const std::string what = cudasim_failed();
      cudasim_fail_one(kNever, kOutOfMemory, /*breaks=*/0);
      SCOPED_TRACE(what);
      ++failed[what.substr(0, what.find(' '))];
      EXPECT_EQ(refused(), 0);
      CheckLeft(before);
      // Events made for the program are kept for it.
      EXPECT_LE(Device().live_events, before.live_events + 4);
    }
    EXPECT_GT(Facts().pages.moves, moves);
    std::cout << (wants_plan ? "planned:" : "by demand:");
    for (const auto& [function, positions] : failed) {
      std::cout << " " << function << " " << positions;
    }
    std::cout << "\n";
    for (const std::string& call : kCalls)
      EXPECT_THAT(failed, Contains(Key(call)));
  }
}

// A page that cannot be released is lost, and nothing else depends on it.
TEST_F(TorchCudaFaultTest, WhereACallFailsForGoodRequestsAreServedOtherwise) {
  for (const bool wants_plan : {false, true}) {
    for (const std::string& function : kCalls) {
      RunProgram(wants_plan);
      int64_t positions = 0;
      bool is_over = false;
      for (int64_t call = 0; !is_over && !HasFailure(); ++call) {
        SCOPED_TRACE(function + " " + std::to_string(call));
        const CudasimStats before = Device();
        const uint64_t first = cudasim_calls(function.c_str());
        cudasim_fail(function.c_str(), call, /*times=*/2, kOutOfMemory);
        RunProgram(wants_plan);
        const uint64_t calls = cudasim_calls(function.c_str()) - first;
        cudasim_fail(function.c_str(), 0, 0, 0);
        // The pages that could not be given back are given back now.
        native::emptyCache();
        is_over = calls < static_cast<uint64_t>(call) + 2;
        if (is_over) break;
        ++positions;
        const bool is_lost = function == "cuMemRelease";
        CheckLeft(before, is_lost ? 1 : 0);
        RunProgram(wants_plan);
        CheckLeft(before, is_lost ? 1 : 0);
      }
      std::cout << (wants_plan ? "planned: " : "by demand: ") << function << " "
                << positions << ", refused " << refused() << "\n";
    }
  }
}

// It was lost, and its page with it.
TEST_F(TorchCudaFaultTest, WithoutEventsABlockWaitsForTheProgramsOwnStream) {
  RunStep({kStep[3]}, /*wants_plan=*/false);
  cudasim_fail("cudaEventRecord", 0, /*times=*/-1, kOutOfMemory);
  FreeAll();
  cudasim_fail("cudaEventRecord", 0, 0, 0);
  EXPECT_EQ(Facts().pages.alive, Bytes{0});
  CheckWork();
}

// The native allocator serves the device then, as one without mapped memory.
TEST_F(TorchCudaFaultTest, WithoutAddressesADeviceIsServedWithoutAnArena) {
  constexpr c10::DeviceIndex kOther = 1;
  ASSERT_GT(c10::cuda::device_count(), kOther) << "CUDASIM_DEVICES is not 2";
  const c10::cuda::CUDAGuard there(kOther);
  const uint64_t before = Device().reservations;
  for (const char* call :
       {"cuMemGetAllocationGranularity", "cuMemAddressReserve"}) {
    CudaAllocator::SetBudget(kOther, kBudget);
    cudasim_fail(call, 0, /*times=*/1, kOutOfMemory);
    const c10::DataPtr served = Allocate(kMiB);
    EXPECT_NE(served.get(), nullptr);
    EXPECT_EQ(CudaAllocator::ArenaOf(kOther), nullptr) << call;
    EXPECT_EQ(Device().reservations, before);
  }
  CudaAllocator::SetBudget(kOther, kBudget);
  cudasim_fail("cudaEventCreateWithFlags", 0, /*times=*/2, kOutOfMemory);
  {
    const c10::DataPtr served = Allocate(kMiB);
    native::recordStream(served, c10::cuda::getStreamFromPool(false, kOther));
    EXPECT_NE(CudaAllocator::ArenaOf(kOther), nullptr);
    EXPECT_EQ(Device().reservations, before + 1);
  }
  EXPECT_NE(Allocate(kMiB).get(), nullptr);
  native::emptyCache();
  EXPECT_EQ(CudaAllocator::ArenaOf(kOther)->mapped(), Bytes{0});
  EXPECT_EQ(BooksOf(kOther).reserved(), Bytes{0});
  CudaAllocator::SetBudget(kOther, kNoBudget);
}

}  // namespace
}  // namespace ebbtide
