// Programs whose blocks are used by four streams of PyTorch and one of their
// own, on the simulated device. Each piece of work names the blocks that it
// accesses, so early work is found by order (tests/cudasim/hazards.h), whenever
// it runs, and by the bytes, where it does.
#ifndef EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_STREAMS_FIXTURE_H_
#define EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_STREAMS_FIXTURE_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/allocator/mutated_steps.h"
#include "tests/allocator/torch_cuda_arena_fixture.h"
#include "tests/allocator/torch_cuda_steps.h"
#include "tests/cudasim/control.h"

namespace ebbtide {

class TorchCudaStreamsTest : public TorchCudaArenaTest {
 protected:
  static constexpr int64_t kScale = 192;  // scale of the sizes of buffers

  static void SetUpTestSuite() {
    TorchCudaArenaTest::SetUpTestSuite();
    static const bool is_watched = [] {
      native::attachAllocatorTraceTracker(&Watch);
      return true;
    }();
    ASSERT_TRUE(is_watched);
  }
  void SetUp() override {
    TorchCudaArenaTest::SetUp();
    streams_ = {c10::cuda::getDefaultCUDAStream(kDevice)};
    while (streams_.size() < kMutatedStreams) {
      const auto next = c10::cuda::getStreamFromPool(false, kDevice);
      if (next != streams_.back()) streams_.push_back(next);
    }
    ASSERT_EQ(cudaStreamCreateWithFlags(&stranger_, cudaStreamNonBlocking), 0);
    streams_.push_back(c10::cuda::getStreamFromExternal(stranger_, kDevice));
  }
  void TearDown() override {
    FreeAll();
    cudasim_set_schedule(CUDASIM_EAGER);
    CheckWork();
    TorchCudaArenaTest::TearDown();
    EXPECT_EQ(cudaStreamDestroy(stranger_), cudaSuccess);
  }

  void RunStep(const std::vector<Buffer>& buffers, bool wants_plan) {
    BeginStep(kDevice, wants_plan);
    for (const Buffer& buffer : buffers) {
      Begin(buffer);
      FreeIf([](Block& block) { return block.left-- <= 0; });
    }
  }
  void FreeAll() {
    FreeIf([](Block&) { return true; });
  }
  // All work is in order, and has found its bytes.
  void CheckWork() {
    EXPECT_EQ(cudasim_hazard(0), nullptr) << cudasim_hazard(0);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(wrong_, 0) << "reads that did not find what was written";
  }
  static CudasimStats Device() {
    CudasimStats stats;
    cudasim_stats(&stats);
    return stats;
  }

  int64_t uses() const { return uses_; }
  int64_t refused() const { return refused_; }

 private:
  struct Block {
    c10::DataPtr data;
    size_t size;
    int64_t id;
    int stream;
    int left;
  };
  // Marks a few bytes of a block, or looks whether they are marked.
  struct Touch {
    const void* begin;
    size_t size;
    int64_t id;
    bool is_write;
    std::atomic<int64_t>* wrong;
  };
  static constexpr size_t kBetweenMarks = 256 << 10;

  static void Watch(const c10::CachingDeviceAllocator::TraceEntry& entry) {
    using Entry = c10::CachingDeviceAllocator::TraceEntry;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the entry has a number
    const void* const block = reinterpret_cast<const void*>(entry.addr_);
    if (entry.action_ == Entry::ALLOC) {
      cudasim_block_taken_on(block, entry.size_, entry.stream_);
    } else if (entry.action_ == Entry::FREE_COMPLETED) {
      cudasim_block_freed(block, entry.size_);
    }
  }

  static void Run(void* argument) {
    const Touch& touch = *static_cast<Touch*>(argument);
    auto* const bytes =
        static_cast<char*>(cudasim_bytes(touch.begin, touch.size));
    for (size_t at = 0; at + sizeof touch.id <= touch.size;
         at += kBetweenMarks) {
      if (bytes == nullptr) {
        ++*touch.wrong;
        return;
      }
      if (touch.is_write) {
        std::memcpy(bytes + at, &touch.id, sizeof touch.id);
      } else if (std::memcmp(bytes + at, &touch.id, sizeof touch.id) != 0) {
        ++*touch.wrong;
        return;
      }
    }
  }

  void Queue(const Block& block, int stream, bool is_write) {
    ++uses_;
    const CudasimAccess access = {block.data.get(), block.size, is_write};
    const CudasimWork work = {
        .name = is_write ? "mark" : "look",
        .ns = 1000,
        .function = &Run,
        .destroy = [](void* touch) { delete static_cast<Touch*>(touch); },
        .argument = new Touch{block.data.get(), block.size, block.id, is_write,
                              &wrong_},
        .accesses = &access,
        .access_count = 1};
    ASSERT_EQ(cudasim_enqueue(streams_[stream].stream(), &work), 0);
  }
  // The program's own calls do not fail.
  void OrderBehind(int before, int after) {
    cudasim_aside_begin();
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), 0);
    EXPECT_EQ(cudaEventRecord(event, streams_[before].stream()), 0);
    EXPECT_EQ(cudaStreamWaitEvent(streams_[after].stream(), event, 0), 0);
    EXPECT_EQ(cudaEventDestroy(event), 0);
    cudasim_aside_end();
  }

  void Begin(const Buffer& buffer) {
    Block block = {.size = static_cast<size_t>(buffer.size * kScale),
                   .id = ++ids_,
                   .stream = buffer.stream,
                   .left = buffer.until};
    try {
      const c10::cuda::CUDAStreamGuard guard(streams_[buffer.stream]);
      block.data = Allocate(static_cast<int64_t>(block.size));
    } catch (const c10::OutOfMemoryError&) {
      ++refused_;
      return;
    }
    Queue(block, buffer.stream, /*is_write=*/true);
    if (buffer.other >= 0 && buffer.other != buffer.stream) {
      OrderBehind(buffer.stream, buffer.other);
      Queue(block, buffer.other, /*is_write=*/false);
      native::recordStream(block.data, streams_[buffer.other]);
    }
    blocks_.push_back(std::move(block));
  }

  template <typename IsDue>
  void FreeIf(IsDue is_due) {
    std::erase_if(blocks_, [&](Block& block) {
      if (!is_due(block)) return false;
      Queue(block, block.stream, /*is_write=*/false);
      return true;
    });
  }

  std::vector<c10::cuda::CUDAStream> streams_;  // the last is the program's own
  cudaStream_t stranger_ = nullptr;
  std::vector<Block> blocks_;
  int64_t ids_ = 0;
  int64_t uses_ = 0;
  int64_t refused_ = 0;
  std::atomic<int64_t> wrong_ = 0;
};

}  // namespace ebbtide

#endif  // EBBTIDE_TESTS_ALLOCATOR_TORCH_CUDA_STREAMS_FIXTURE_H_
