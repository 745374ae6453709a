// On the simulated driver.
#include "allocator/cuda_range.h"

#include <ATen/Context.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/cudasim/control.h"

namespace ebbtide {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int kDevice = 0;

CudasimStats Stats() {
  CudasimStats stats = {};
  cudasim_stats(&stats);
  return stats;
}

class CudaRangeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  }
  void SetUp() override {
    const auto driver = CudaDriver::Loaded();
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *driver;
  }

  const CudaDriver* driver_ = nullptr;
};

TEST_F(CudaRangeTest, AllOfItCanBeWrittenAndIsGivenBack) {
  const CudasimStats before = Stats();
  {
    const auto range = CudaRange::Map(driver_, kDevice, Bytes{5 * kMiB + 1});
    ASSERT_TRUE(range.ok()) << range.status();
    EXPECT_GE((*range)->size(), Bytes{5 * kMiB + 1});
    EXPECT_EQ(static_cast<int64_t>(Stats().device_bytes - before.device_bytes),
              Count((*range)->size()));
    EXPECT_EQ(cudaMemset((*range)->base(), 7, Count((*range)->size())),
              cudaSuccess);
    char last = 0;
    EXPECT_EQ(cudaMemcpy(&last, (*range)->base() + Count((*range)->size()) - 1,
                         1, cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(last, 7);
  }
  EXPECT_EQ(Stats().device_bytes, before.device_bytes);
}

TEST_F(CudaRangeTest, AFewHandlesMakeOneRange) {
  cudasim_set_capacity(uint64_t{4} << 30);
  const uint64_t creates = cudasim_calls("cuMemCreate");
  const auto range =
      CudaRange::Map(driver_, kDevice, Bytes{(int64_t{2} << 30) + 1});
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(cudasim_calls("cuMemCreate") - creates, 3u);
}

TEST_F(CudaRangeTest, ADeviceThatIsTooSmallIsLeftAsItWas) {
  cudasim_set_capacity(uint64_t{3} << 30);
  const CudasimStats before = Stats();
  const auto range = CudaRange::Map(driver_, kDevice, Bytes{int64_t{4} << 30});
  EXPECT_TRUE(absl::IsResourceExhausted(range.status())) << range.status();
  EXPECT_NE(range.status().message().find("cuMemCreate"), std::string::npos);
  EXPECT_EQ(Stats().device_bytes, before.device_bytes);
  EXPECT_TRUE(CudaRange::Map(driver_, kDevice, Bytes{int64_t{2} << 30}).ok());
}

// Whichever call fails, once: either the range is whole, or nothing is left.
TEST_F(CudaRangeTest, AnyCallMayFail) {
  cudasim_set_capacity(uint64_t{4} << 30);
  const CudasimStats before = Stats();
  const auto map = [&] {
    return CudaRange::Map(driver_, kDevice, Bytes{(int64_t{1} << 30) + 1});
  };
  const uint64_t first = cudasim_all_calls();
  ASSERT_TRUE(map().ok());
  const int calls = static_cast<int>(cudasim_all_calls() - first);
  int failed = 0;
  for (int call = 0; call < calls; ++call) {
    cudasim_fail_one(call, cudaErrorUnknown, /*breaks=*/0);
    const absl::Status status = map().status();
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    failed += status.ok() ? 0 : 1;
    EXPECT_EQ(Stats().device_bytes, before.device_bytes) << call;
    EXPECT_EQ(Stats().live_allocations, before.live_allocations) << call;
  }
  // Granularity, reservation, two handles, two mappings, access; not what gives
  // back.
  EXPECT_EQ(failed, 7);
  EXPECT_EQ(calls, 7 + 2 + 3);
}

}  // namespace
}  // namespace ebbtide
