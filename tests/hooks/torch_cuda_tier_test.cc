// On the simulated device, under every order in which it may run what is
// queued.
#include "hooks/cuda_tier.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_books.h"
#include "gtest/gtest.h"
#include "hooks/cuda_device.h"
#include "profiler/clock.h"
#include "tests/cudasim/control.h"

namespace ebbtide {
namespace {

constexpr int kDevice = 0;
constexpr size_t kBytes = 3 << 20;

class CudaTierTest : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    const auto api = CudaApi::Loaded();
    ASSERT_TRUE(api.ok()) << api.status();
    Device::Use(new CudaDevice(*api, 1));
  }
  void SetUp() override {
    cudasim_set_schedule(GetParam());
    // Slow copies, so that what does not wait for them shows.
    cudasim_set_rates(0.1, 0.1, 5, 1);
  }
  void TearDown() override {
    c10::cuda::device_synchronize();
    EXPECT_EQ(cudasim_broken(), nullptr);
    EXPECT_EQ(tier_.room().used, Bytes{0});
  }

  static Device& Cuda() { return Device::Get(); }
  static c10::Stream Here() { return Cuda().CurrentStream(kDevice); }
  static const CudaApi& Api() { return **CudaApi::Loaded(); }

  // Queued on the current stream.
  static void Set(const c10::Storage& bytes, int value) {
    const auto stream = c10::cuda::getCurrentCUDAStream().stream();
    ASSERT_EQ(
        Api().memset_async(bytes.mutable_data(), value, bytes.nbytes(), stream),
        cudaSuccess);
  }
  static c10::Storage Made(int value) {
    c10::Storage bytes = Cuda().Allocate(kBytes, kDevice);
    Set(bytes, value);
    return bytes;
  }
  static std::string Content(const c10::Storage& bytes) {
    const c10::Storage here = Cuda().OnHost(bytes);
    return {static_cast<const char*>(here.data()), here.nbytes()};
  }
  std::shared_ptr<SpillSlot> Write(const c10::Storage& bytes) {
    auto slot = tier_.StartWrite(bytes, "test", Here());
    EXPECT_TRUE(slot.ok()) << slot.status();
    return *std::move(slot);
  }

  CudaTier tier_{
      *CudaApi::Loaded(), Bytes{64 << 20}, {std::make_shared<CudaClock>()}};
};

TEST_P(CudaTierTest, BytesComeBackAfterTheirMemoryWasTakenByOthers) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::Storage bytes = Made(1);
  const auto slot = Write(bytes);
  ASSERT_TRUE(tier_.FinishWrite(slot.get()).ok());
  const void* const place = bytes.data();
  bytes = c10::Storage();
  // There is no other memory.
  CudaAllocator::SetBudget(kDevice, BooksOf(kDevice).reserved());
  const c10::Storage other = Made(2);
  CudaAllocator::SetBudget(kDevice, kNoBudget);
  EXPECT_EQ(other.data(), place);
  const auto back = tier_.FinishRead(slot.get());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Content(*back), std::string(kBytes, 1));
  EXPECT_EQ(Content(other), std::string(kBytes, 2));
}

TEST_P(CudaTierTest, ACopyAheadOfNeedIsHandedOver) {
  const c10::Storage bytes = Made(3);
  const auto slot = Write(bytes);
  EXPECT_FALSE(slot->IsReading());
  ASSERT_TRUE(tier_.StartRead(slot.get()).ok());
  EXPECT_TRUE(slot->IsReading());
  EXPECT_EQ(Content(*tier_.FinishRead(slot.get())), std::string(kBytes, 3));
  EXPECT_FALSE(slot->IsReading());
}

TEST_P(CudaTierTest, ItIsHandedOverToAnotherStream) {
  const c10::Storage bytes = Made(4);
  const auto slot = Write(bytes);
  ASSERT_TRUE(tier_.StartRead(slot.get()).ok());
  const auto before = c10::cuda::getCurrentCUDAStream();
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
  EXPECT_EQ(Content(*tier_.FinishRead(slot.get())), std::string(kBytes, 4));
  c10::cuda::setCurrentCUDAStream(before);
}

TEST_P(CudaTierTest, WhatIsBroughtBackTwiceIsTheSame) {
  const c10::Storage bytes = Made(5);
  const auto slot = Write(bytes);
  const auto first = tier_.FinishRead(slot.get());
  Set(*first, 6);
  EXPECT_EQ(Content(*tier_.FinishRead(slot.get())), std::string(kBytes, 5));
}

TEST_P(CudaTierTest, WhoWritesTheBytesAfterItsSlotHasGoneComesAfterTheCopy) {
  const c10::Storage bytes = Made(7);
  auto slot = Write(bytes);
  slot.reset();
  Set(bytes, 8);
  EXPECT_EQ(Content(bytes), std::string(kBytes, 8));
  EXPECT_EQ(cudasim_hazard(0), nullptr);
}

TEST_P(CudaTierTest, ACancelledReadGivesItsMemoryBack) {
  const c10::Storage bytes = Made(9);
  const auto slot = Write(bytes);
  ASSERT_TRUE(tier_.StartRead(slot.get()).ok());
  tier_.CancelRead(slot.get());
  EXPECT_FALSE(slot->IsReading());
  const c10::Storage other = Made(10);
  EXPECT_EQ(Content(other), std::string(kBytes, 10));
  EXPECT_EQ(Content(*tier_.FinishRead(slot.get())), std::string(kBytes, 9));
}

TEST_P(CudaTierTest, WithoutRoomNothingIsCopied) {
  const c10::Storage large = Cuda().Allocate(size_t{65} << 20, kDevice);
  EXPECT_TRUE(absl::IsResourceExhausted(
      tier_.StartWrite(large, "test", Here()).status()));
  EXPECT_EQ(tier_.in_flight(), Bytes{0});
}

TEST_P(CudaTierTest, TheTraceIsToldOfWhatWasCopiedUnderItsName) {
  static std::vector<Span> told;
  told.clear();
  CudaTier tier(*CudaApi::Loaded(), Bytes{64 << 20},
                {std::make_shared<CudaClock>()});
  tier.SetLog({.about =
                   [](absl::string_view what, const void* data) {
                     EXPECT_NE(data, nullptr);
                     return Span{.name = what == "unknown" ? -1 : 7,
                                 .value = 3};
                   },
               .add = [](const Span& span) { told.push_back(span); }});
  const int64_t before = NowNanos();
  const c10::Storage bytes = Made(5);
  const auto unknown = *tier.StartWrite(bytes, "unknown", Here());
  const auto slot = *tier.StartWrite(bytes, "known", Here());
  EXPECT_TRUE(tier.FinishWrite(slot.get()).ok());
  EXPECT_EQ(Content(*tier.FinishRead(slot.get())), std::string(kBytes, 5));
  EXPECT_TRUE(Cuda().AwaitAll());
  tier.room();
  const int64_t after = NowNanos();
  ASSERT_EQ(told.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(told[i].kind, i == 0 ? SpanKind::kOffload : SpanKind::kRestore);
    EXPECT_EQ(told[i].name, 7);
    EXPECT_EQ(told[i].value, 3);
    EXPECT_EQ(told[i].bytes, Bytes{kBytes});
    EXPECT_LT(told[i].begin, told[i].end);
    EXPECT_GE(told[i].end, before);
    EXPECT_LE(told[i].end, after);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, CudaTierTest,
                         testing::Values(CUDASIM_EAGER, CUDASIM_ONTIME,
                                         CUDASIM_LATE, CUDASIM_RACE,
                                         CUDASIM_RANDOM));

}  // namespace
}  // namespace ebbtide
