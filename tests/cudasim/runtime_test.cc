// The face of the runtime, as a program without torch sees it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/cudasim/control.h"

namespace {

constexpr size_t kSize = size_t{1} << 20;

class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), 0);
    ASSERT_EQ(cudaMalloc(&device_, kSize), 0);
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&host_), kSize), 0);
  }
  void TearDown() override {
    cudasim_mend();
    cudasim_set_schedule(CUDASIM_LATE);
    EXPECT_EQ(cudaStreamDestroy(side_), 0);
    EXPECT_EQ(cudaFree(device_), 0);
    EXPECT_EQ(cudaFreeHost(host_), 0);
    cudaGetLastError();
  }

  cudaStream_t side_ = nullptr;
  void* device_ = nullptr;
  char* host_ = nullptr;
};

TEST_F(RuntimeTest, APinnedCopyReadsItsSourceWhenItRuns) {
  memset(host_, 1, kSize);
  ASSERT_EQ(cudaMemcpyAsync(device_, host_, kSize, cudaMemcpyDefault, side_),
            0);
  memset(host_, 2, kSize);
  ASSERT_EQ(cudaStreamSynchronize(side_), 0);
  char byte = 0;
  ASSERT_EQ(cudasim_peek(device_, &byte, 1), 0);
  EXPECT_EQ(byte, 2);
}

TEST_F(RuntimeTest, PeekAndPokeReachTheBytesAtOnce) {
  const char in = 9;
  char out = 0;
  ASSERT_EQ(cudasim_poke(device_, &in, 1), 0);
  ASSERT_EQ(cudasim_peek(device_, &out, 1), 0);
  EXPECT_EQ(out, 9);
  EXPECT_EQ(*static_cast<char*>(cudasim_bytes(device_, 1)), 9);
  char* const beyond = static_cast<char*>(device_) + (1 << 21);
  EXPECT_EQ(cudasim_bytes(beyond, 1), nullptr);
  EXPECT_EQ(cudasim_peek(beyond, &out, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudasim_bytes(host_, 1), host_);
}

TEST_F(RuntimeTest, APageableCopyIsStaged) {
  std::vector<char> mine(kSize, 1);
  ASSERT_EQ(
      cudaMemcpyAsync(device_, mine.data(), kSize, cudaMemcpyDefault, side_),
      0);
  mine.assign(kSize, 2);
  ASSERT_EQ(cudaMemcpy(host_, device_, 1, cudaMemcpyDefault), 0);
  ASSERT_EQ(cudaStreamSynchronize(side_), 0);
  ASSERT_EQ(cudaMemcpy(host_ + 1, device_, 1, cudaMemcpyDefault), 0);
  EXPECT_EQ(host_[1], 1);
}

TEST_F(RuntimeTest, CopiesBeyondABlockFailAndAreCounted) {
  CudasimStats before;
  CudasimStats after;
  cudasim_stats(&before);
  EXPECT_EQ(cudaMemcpy(static_cast<char*>(device_) + (1 << 21), host_, 1,
                       cudaMemcpyDefault),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudasim_stats(&after);
  EXPECT_EQ(after.out_of_bounds, before.out_of_bounds + 1);
}

TEST_F(RuntimeTest, EventsMeasureTheVirtualClock) {
  cudasim_set_rates(1, 1, 5, 1);
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreate(&begin), 0);
  ASSERT_EQ(cudaEventCreate(&end), 0);
  ASSERT_EQ(cudaEventRecord(begin, side_), 0);
  ASSERT_EQ(cudaMemcpyAsync(host_, device_, kSize, cudaMemcpyDefault, side_),
            0);
  ASSERT_EQ(cudaEventRecord(end, side_), 0);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  cudasim_advance_ns(10'000'000);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&ms, begin, end), 0);
  // 2 us of latency, 1 byte per nanosecond, and a microsecond of the host
  // between the event and the copy.
  EXPECT_NEAR(ms, 1.048576 + 0.002 + 0.001, 1e-4);
  EXPECT_EQ(cudaEventDestroy(begin), 0);
  EXPECT_EQ(cudaEventDestroy(end), 0);
  cudasim_set_rates(25, 25, 5, 1);
}

TEST_F(RuntimeTest, AGraphReplaysWhatWasCapturedFromTwoStreams) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), 0);
  ASSERT_EQ(cudaEventCreate(&event), 0);
  ASSERT_EQ(cudaMemset(device_, 0, 2), 0);
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeGlobal), 0);
  ASSERT_EQ(cudaMemcpyAsync(device_, host_, 1, cudaMemcpyDefault, side_), 0);
  ASSERT_EQ(cudaEventRecord(event, side_), 0);
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), 0);
  ASSERT_EQ(cudaMemcpyAsync(static_cast<char*>(device_) + 1, host_, 1,
                            cudaMemcpyDefault, other),
            0);
  EXPECT_EQ(cudaStreamSynchronize(side_), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(cudaStreamEndCapture(side_, &graph), 0);
  ASSERT_EQ(cudaGraphInstantiate(&launchable, graph, 0), 0);
  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), 0);
  EXPECT_EQ(nodes, 2);
  for (const char value : {3, 4}) {
    host_[0] = value;
    ASSERT_EQ(cudaGraphLaunch(launchable, side_), 0);
    ASSERT_EQ(cudaStreamSynchronize(side_), 0);
    char bytes[2];
    ASSERT_EQ(cudasim_peek(device_, bytes, 2), 0);
    EXPECT_EQ(bytes[0], value);
    EXPECT_EQ(bytes[1], value);
  }
  EXPECT_EQ(cudaGraphExecDestroy(launchable), 0);
  EXPECT_EQ(cudaGraphDestroy(graph), 0);
  EXPECT_EQ(cudaEventDestroy(event), 0);
  EXPECT_EQ(cudaStreamDestroy(other), 0);
}

TEST_F(RuntimeTest, AFaultHitsTheCallItWasMeantForAndNoOther) {
  void* block = nullptr;
  const uint64_t calls = cudasim_calls("cudaMalloc");
  cudasim_fail("cudaMalloc", 1, 1, cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&block, 1), 0);
  ASSERT_EQ(cudaFree(block), 0);
  EXPECT_EQ(cudaMalloc(&block, 1), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&block, 1), 0);
  ASSERT_EQ(cudaFree(block), 0);
  EXPECT_EQ(cudasim_calls("cudaMalloc"), calls + 3);
}

TEST_F(RuntimeTest, AHostFunctionMayNotCallTheRuntimeButOthersMayMeanwhile) {
  struct Seen {
    cudaError_t inside = cudaSuccess;
    cudaError_t elsewhere = cudaErrorUnknown;
  } seen;
  const auto function = [](void* argument) {
    auto* const out = static_cast<Seen*>(argument);
    out->inside = cudaDeviceSynchronize();
    std::thread([out] { out->elsewhere = cudaGetLastError(); }).join();
    std::thread([out] {
      void* block = nullptr;
      out->elsewhere = cudaMalloc(&block, 1);
    }).join();
  };
  ASSERT_EQ(cudaLaunchHostFunc(side_, function, &seen), 0);
  ASSERT_EQ(cudaStreamSynchronize(side_), 0);
  EXPECT_EQ(seen.inside, cudaErrorNotPermitted);
  EXPECT_EQ(seen.elsewhere, cudaSuccess);
}

TEST_F(RuntimeTest, ABrokenDeviceFailsWithTheFirstMessage) {
  cudasim_break("the first");
  cudasim_break("the second");
  EXPECT_EQ(cudaMemset(device_, 0, 1), cudaErrorLaunchFailure);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "the first");
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), 0);
  cudasim_mend();
  EXPECT_EQ(cudaMemset(device_, 0, 1), cudaSuccess);
}

TEST_F(RuntimeTest, UseAfterFreeBreaksTheDeviceAndNamesBothAccesses) {
  cudasim_block_taken_on(device_, kSize, nullptr);
  ASSERT_EQ(cudaMemcpyAsync(host_, device_, kSize, cudaMemcpyDefault, side_),
            0);
  cudasim_block_freed(device_, kSize);
  ASSERT_NE(cudasim_broken(), nullptr);
  EXPECT_NE(std::string(cudasim_broken()).find("copy to the host (reads"),
            std::string::npos);
  EXPECT_EQ(cudaMemset(device_, 0, 1), cudaErrorLaunchFailure);
  cudasim_mend();
  cudasim_set_hazards_fatal(0);
  cudasim_block_taken(device_, kSize);
  ASSERT_EQ(cudaMemsetAsync(device_, 0, kSize, side_), 0);
  cudasim_block_freed(device_, kSize);
  cudasim_block_taken(device_, kSize);
  EXPECT_EQ(cudaMemsetAsync(device_, 1, kSize, nullptr), cudaSuccess);
  ASSERT_NE(cudasim_hazard(0), nullptr);
  EXPECT_NE(std::string(cudasim_hazard(0)).find("memset (writes"),
            std::string::npos);
  EXPECT_EQ(cudasim_hazard(1), nullptr);
  cudasim_set_hazards_fatal(1);
}

TEST_F(RuntimeTest, AGraphMayUseBlocksThatItsCaptureFreed) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(side_, cudaStreamCaptureModeGlobal), 0);
  cudasim_block_taken_on(device_, kSize, side_);
  ASSERT_EQ(cudaMemsetAsync(device_, 1, kSize, side_), 0);
  cudasim_block_freed(device_, kSize);
  ASSERT_EQ(cudaStreamEndCapture(side_, &graph), 0);
  ASSERT_EQ(cudaGraphInstantiate(&launchable, graph, 0), 0);
  EXPECT_EQ(cudaGraphLaunch(launchable, side_), 0);
  EXPECT_EQ(cudaStreamSynchronize(side_), 0);
  EXPECT_EQ(cudasim_broken(), nullptr);
  EXPECT_EQ(cudaGraphExecDestroy(launchable), 0);
  EXPECT_EQ(cudaGraphDestroy(graph), 0);
}

TEST_F(RuntimeTest, PoisonReachesReusedMemoryInStreamOrder) {
  cudasim_set_poison(0xff);
  ASSERT_EQ(cudaMemset(device_, 1, kSize), 0);
  cudasim_block_taken_on(device_, kSize, side_);
  char byte = 0;
  ASSERT_EQ(cudasim_peek(device_, &byte, 1), 0);
  EXPECT_EQ(byte, 1);
  ASSERT_EQ(cudaStreamSynchronize(side_), 0);
  ASSERT_EQ(cudasim_peek(device_, &byte, 1), 0);
  EXPECT_EQ(byte, '\xff');
  cudasim_set_poison(-1);
}

TEST_F(RuntimeTest, ShadowedCopiesTakeTheirTimeAndMoveNothing) {
  ASSERT_EQ(cudaMemset(device_, 1, kSize), 0);
  cudasim_shadow_begin();
  ASSERT_EQ(cudaMemset(device_, 2, kSize), 0);
  memset(host_, 3, kSize);
  ASSERT_EQ(cudaMemcpy(device_, host_, kSize, cudaMemcpyDefault), 0);
  cudasim_shadow_end();
  ASSERT_EQ(cudaMemcpy(host_, device_, kSize, cudaMemcpyDefault), 0);
  EXPECT_EQ(host_[0], 1);
}

TEST_F(RuntimeTest, CallsMadeAsideAreNotCountedAndDoNotFail) {
  const uint64_t before = cudasim_calls("cudaStreamIsCapturing");
  cudasim_fail("cudaStreamIsCapturing", 0, 1, 2);
  cudaStreamCaptureStatus status{};
  cudasim_aside_begin();
  EXPECT_EQ(cudaStreamIsCapturing(side_, &status), 0);
  cudasim_aside_end();
  EXPECT_EQ(cudasim_calls("cudaStreamIsCapturing"), before);
  EXPECT_EQ(cudaStreamIsCapturing(side_, &status), 2);
  EXPECT_EQ(cudasim_calls("cudaStreamIsCapturing"), before + 1);
}

TEST_F(RuntimeTest, QueuedWorkRunsOnceAndItsArgumentIsDestroyed) {
  struct Counts {
    int ran = 0;
    int destroyed = 0;
  } counts;
  const CudasimWork work{"work",
                         100,
                         [](void* c) { ++static_cast<Counts*>(c)->ran; },
                         [](void* c) { ++static_cast<Counts*>(c)->destroyed; },
                         &counts,
                         nullptr,
                         0};
  ASSERT_EQ(cudasim_enqueue(side_, &work), 0);
  EXPECT_EQ(counts.ran, 0);
  ASSERT_EQ(cudasim_wait(side_), 0);
  EXPECT_EQ(counts.ran, 1);
  EXPECT_EQ(counts.destroyed, 1);
}

TEST_F(RuntimeTest, UnknownStreamsAreRefused) {
  cudaStream_t gone = nullptr;
  ASSERT_EQ(cudaStreamCreate(&gone), 0);
  ASSERT_EQ(cudaStreamDestroy(gone), 0);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, 1, gone),
            cudaErrorInvalidResourceHandle);
}

}  // namespace
