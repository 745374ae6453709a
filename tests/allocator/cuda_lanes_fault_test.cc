// Programs that move tensors out and back, with every kind of bad luck: their
// streams run in any order, and any call of CUDA fails.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/cuda_lanes.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_cuda.h"
#include "tests/allocator/pages.h"

namespace ebbtide {
namespace {

// A tensor that is made, moved out while its memory serves others, brought back
// elsewhere, and looked at, as far as the lanes let it.
class Program {
 public:
  Program(FakeCuda* cuda, CudaLanes* lanes, uint32_t seed)
      : cuda_(*cuda),
        lanes_(*lanes),
        random_(seed),
        stream_(cuda->NewStream()) {}

  void Make(int tensors, Bytes size) {
    const int64_t count = Count(size);
    for (int i = 0; i < tensors; ++i) {
      tensors_.push_back(std::make_unique<Tensor>());
      tensors_.back()->source.resize(count, -1);
      tensors_.back()->target.resize(count, -2);
    }
  }

  void Run() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      Evict(*tensors_[i], static_cast<int>(i));
    }
    for (size_t i = tensors_.size(); i-- > 0;) {
      Restore(*tensors_[i], static_cast<int>(i));
    }
  }

  int looks() const { return looks_; }
  int wrong() const { return wrong_; }
  int errors() const { return errors_; }

 private:
  struct Tensor {
    std::vector<char> source;
    std::vector<char> target;
    std::optional<Extent> extent;
  };

  static char ByteOf(int seed, size_t at) {
    return static_cast<char>(seed * 7 + static_cast<int>(at % 113));
  }

  void Evict(Tensor& tensor, int seed) {
    cuda_.Launch(stream_, [&tensor, seed] {
      for (size_t i = 0; i < tensor.source.size(); ++i) {
        tensor.source[i] = ByteOf(seed, i);
      }
    });
    Shuffle();
    const Bytes size{static_cast<int64_t>(tensor.source.size())};
    const auto extent = lanes_.Take(size);
    if (Failed(extent.status())) return;
    const auto out = lanes_.Out(tensor.source.data(), *extent, size, stream_);
    if (Failed(out.status())) return lanes_.Give(*extent);
    Shuffle();
    // Another tensor gets the memory, once all of it is safely out.
    if (Failed(lanes_.OrderAfter(stream_, **out))) return lanes_.Give(*extent);
    cuda_.Launch(stream_, [&tensor] {
      std::fill(tensor.source.begin(), tensor.source.end(), -3);
    });
    tensor.extent = *extent;
    Shuffle();
  }

  void Restore(Tensor& tensor, int seed) {
    if (!tensor.extent) return LookAt(tensor.source, seed);
    // Whoever has that memory still uses it.
    cuda_.Launch(stream_, [this, &tensor] {
      if (tensor.target[0] != -2) ++wrong_;
    });
    const Bytes size{static_cast<int64_t>(tensor.target.size())};
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto back =
          lanes_.Back(*tensor.extent, tensor.target.data(), size, stream_);
      if (Failed(back.status())) continue;
      Shuffle();
      if (Failed(lanes_.OrderAfter(stream_, **back))) continue;
      lanes_.Give(*tensor.extent);
      return LookAt(tensor.target, seed);
    }
  }

  void LookAt(const std::vector<char>& bytes, int seed) {
    cuda_.Launch(stream_, [this, &bytes, seed] {
      ++looks_;
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != ByteOf(seed, i)) {
          ++wrong_;
          return;
        }
      }
    });
    Shuffle();
  }

  bool Failed(const absl::Status& status) {
    errors_ += !status.ok();
    return !status.ok();
  }
  void Shuffle() {
    for (uint32_t steps = random_() % 12; steps > 0; --steps) {
      cuda_.Step(random_);
    }
  }

  FakeCuda& cuda_;
  CudaLanes& lanes_;
  std::mt19937 random_;
  const cudaStream_t stream_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  int looks_ = 0;
  int wrong_ = 0;
  int errors_ = 0;
};

constexpr int kTensors = 6;

struct Result {
  int64_t calls = 0;
  std::string failed;
  int errors = 0;
};

// FakeCuda looks for leaks at its end.
Result RunOnce(uint32_t seed, int64_t fail_at, Bytes chunk) {
  FakeCuda cuda;
  cuda.FailCall(fail_at, cudaErrorUnknown);
  Result result;
  {
    const auto slab = *PinnedSlab::Open(
        cuda.api(), {.limit = MiB(1), .ahead = Bytes{0}, .chunk = chunk});
    const auto lanes = CudaLanes::Open(cuda.api(), slab.get(), 0);
    if (lanes.ok()) {
      Program program(&cuda, lanes->get(), seed);
      program.Make(kTensors, Bytes{20'000});
      program.Run();
      cuda.Run();
      EXPECT_EQ(program.looks(), kTensors);
      EXPECT_EQ(program.wrong(), 0);
      result.errors = program.errors();
      EXPECT_EQ(FakeCuda::last_error(), cudaSuccess);
    } else {
      result.errors = 1;
    }
  }
  result.failed = cuda.failed();
  result.calls = cuda.calls();
  return result;
}

TEST(CudaLanesFaultTest, StreamsMayRunInAnyOrder) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(RunOnce(seed, -1, KiB(64)).errors, 0);
    EXPECT_EQ(RunOnce(seed, -1, KiB(8)).errors, 0);
  }
}

TEST(CudaLanesFaultTest, AFaultAnywhereLosesNothingAndLeaksNothing) {
  int errors = 0;
  std::set<std::string> failed;
  for (uint32_t seed = 0; seed < 3; ++seed) {
    int64_t calls = 1;
    for (int64_t k = 0; k < calls; ++k) {
      const Result result = RunOnce(seed, k, KiB(8));
      SCOPED_TRACE(testing::Message()
                   << seed << ": call " << k << ", " << result.failed);
      calls = std::max(calls, result.calls);
      EXPECT_LE(result.errors, 1);
      errors += result.errors;
      failed.insert(result.failed);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(errors, 100);  // most were felt
  for (const char* name :
       {"cudaStreamCreateWithPriority", "cudaEventCreateWithFlags",
        "cudaEventRecord", "cudaStreamWaitEvent", "cudaMemcpyAsync",
        "cudaEventQuery", "cudaHostRegister", "cudaHostUnregister",
        "cudaStreamDestroy", "cudaEventDestroy", "cudaGetDevice"}) {
    EXPECT_EQ(failed.count(name), 1u) << name;
  }
}

class BrokenCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    slab_ = *PinnedSlab::Open(
        cuda_.api(), {.limit = MiB(1), .ahead = Bytes{0}, .chunk = KiB(64)});
    lanes_ = *CudaLanes::Open(cuda_.api(), slab_.get(), 0);
    extent_ = *lanes_->Take(KiB(200));
  }
  void TearDown() override {
    cuda_.on_call = nullptr;
    lanes_.reset();
    slab_.reset();
  }
  // Fails calls that come after so many parts were given to a stream.
  void FailAfterParts(size_t parts, int64_t count = 1) {
    cuda_.on_call = [this, parts, count] {
      if (cuda_.parts.size() == parts && !std::exchange(failed_, true)) {
        cuda_.FailCall(cuda_.calls(), cudaErrorUnknown, count);
      }
    };
  }

  FakeCuda cuda_;
  const cudaStream_t program_ = cuda_.NewStream();
  std::unique_ptr<PinnedSlab> slab_;
  std::unique_ptr<CudaLanes> lanes_;
  Extent extent_;
  bool failed_ = false;
  std::vector<char> tensor_ = std::vector<char>(200 << 10, 5);
};

TEST_F(BrokenCopyTest, NothingOfACopyThatCouldNotBeGivenGoesOn) {
  FailAfterParts(2);
  const auto out = lanes_->Out(tensor_.data(), extent_, KiB(200), program_);
  EXPECT_EQ(out.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(cuda_.IsIdle(cuda_.Made(0)));
  EXPECT_EQ(tensor_, std::vector<char>(200 << 10, 5));
  lanes_->Give(extent_);
  EXPECT_EQ(slab_->Stats().used, Bytes{0});
}

TEST_F(BrokenCopyTest, ThatHoldsForTheLastCallOfACopy) {
  FailAfterParts(4);
  const auto back = lanes_->Back(extent_, tensor_.data(), KiB(200), program_);
  EXPECT_FALSE(back.ok());
  EXPECT_TRUE(cuda_.IsIdle(cuda_.Made(1)));
}

TEST_F(BrokenCopyTest, WhatMayStillBeWrittenToIsKeptToTheEnd) {
  // Also the scope of the wait for what was given, and that wait.
  FailAfterParts(2, /*count=*/3);
  EXPECT_FALSE(lanes_->Out(tensor_.data(), extent_, KiB(200), program_).ok());
  EXPECT_FALSE(cuda_.IsIdle(cuda_.Made(0)));
  lanes_->Give(extent_);
  EXPECT_EQ(lanes_->kept_back(), KiB(200));
  lanes_.reset();
  EXPECT_TRUE(cuda_.IsIdle(cuda_.Made(0)));
  EXPECT_EQ(slab_->Stats().used, Bytes{0});
}

TEST_F(BrokenCopyTest, WhatAFailedCopyTouchedIsKeptToTheEnd) {
  const auto out = *lanes_->Out(tensor_.data(), extent_, KiB(200), program_);
  // Two calls are those of the scope.
  cuda_.FailCall(cuda_.calls() + 1, cudaErrorUnknown);
  EXPECT_EQ(out->state(), CudaCopy::State::kFailed);
  EXPECT_EQ(out->state(), CudaCopy::State::kFailed);
  const absl::Status ordered = lanes_->OrderAfter(program_, *out);
  EXPECT_EQ(ordered.code(), absl::StatusCode::kUnavailable);
  bool ran = false;
  cuda_.Hold(cuda_.Made(0));
  cuda_.Launch(program_, [&] { ran = true; });
  cuda_.Run();
  EXPECT_FALSE(ran) << "the stream is ordered none the less";
  lanes_->Poll();
  lanes_->Give(extent_);
  EXPECT_EQ(lanes_->kept_back(), KiB(200));
  cuda_.Hold(cuda_.Made(0), false);
  cuda_.Run();
  lanes_->Poll();
  EXPECT_EQ(lanes_->kept_back(), KiB(200));
  EXPECT_EQ(lanes_->Wait(*out).code(), absl::StatusCode::kUnavailable);
  lanes_.reset();
  EXPECT_EQ(slab_->Stats().used, Bytes{0});
}

TEST_F(BrokenCopyTest, ABrokenDeviceEndsEverythingInErrors) {
  const auto out = *lanes_->Out(tensor_.data(), extent_, KiB(200), program_);
  cuda_.Break();
  EXPECT_EQ(out->state(), CudaCopy::State::kFailed);
  EXPECT_FALSE(lanes_->Wait(*out).ok());
  EXPECT_FALSE(lanes_->Back(extent_, tensor_.data(), KiB(200), program_).ok());
  lanes_->Give(extent_);
  lanes_->WaitForAll();
  lanes_.reset();
  // The program must see what has happened to its device.
  EXPECT_EQ(FakeCuda::last_error(), cudaErrorIllegalAddress);
}

TEST_F(BrokenCopyTest, MemoryThatIsNotPinnedCarriesTheSameBytes) {
  lanes_->Give(extent_);
  cuda_.registrations_left = 0;
  ASSERT_TRUE(lanes_->Take(KiB(256)).ok());  // the pinned part
  Program program(&cuda_, lanes_.get(), 1);
  program.Make(4, Bytes{100'000});
  program.Run();
  cuda_.Run();
  EXPECT_EQ(slab_->Stats().pageable, KiB(448));
  EXPECT_EQ(program.looks(), 4);
  EXPECT_EQ(program.wrong(), 0);
  EXPECT_EQ(program.errors(), 0);
}

// Each thread with a stream of its own, as autograd's.
TEST_F(BrokenCopyTest, ThreadsMayCopyAtOnce) {
  lanes_->Give(extent_);
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    programs.push_back(std::make_unique<Program>(&cuda_, lanes_.get(), t));
    programs.back()->Make(20, Bytes{10'000 + t});
    threads.emplace_back([program = programs.back().get()] { program->Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  cuda_.Run();
  for (const auto& program : programs) {
    EXPECT_EQ(program->looks(), 20);
    EXPECT_EQ(program->wrong(), 0);
    EXPECT_EQ(program->errors(), 0);
  }
  lanes_->Poll();
  EXPECT_EQ(slab_->Stats().used, Bytes{0});
}

}  // namespace
}  // namespace ebbtide
