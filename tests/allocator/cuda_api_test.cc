#include "allocator/cuda_api.h"

#include <dlfcn.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/fake_cuda.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;

TEST(CudaApiTest, TheRuntimeIsFoundOnceSomebodyHasLoadedIt) {
  const auto before = CudaApi::Loaded();
  EXPECT_EQ(before.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(before.status().message()),
              HasSubstr("libcudart.so.13"));
#ifdef EBBTIDE_CUDART
  // As Python loads it: its names are local.
  ASSERT_NE(dlopen(EBBTIDE_CUDART, RTLD_NOW | RTLD_LOCAL), nullptr)
      << dlerror();
  const auto api = CudaApi::Loaded();
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(*api, *CudaApi::Loaded());
  EXPECT_STREQ((*api)->get_error_name(cudaErrorNotReady), "cudaErrorNotReady");
  // With a driver our error is taken back; without, nothing else is ever said.
  const absl::Status status = CudaStatus(
      **api, (*api)->device_get_attribute(nullptr, cudaDevAttrHostNumaId, 0),
      "cudaDeviceGetAttribute");
  EXPECT_FALSE(status.ok());
  if (status.code() != absl::StatusCode::kFailedPrecondition) {
    EXPECT_EQ((*api)->peek_at_last_error(), cudaSuccess) << status;
  }
#endif
}

TEST(CudaApiTest, AnErrorNamesTheCallAndHasACode) {
  FakeCuda cuda;
  const auto code = [&](cudaError_t error) {
    return CudaStatus(*cuda.api(), error, "cudaX").code();
  };
  EXPECT_EQ(code(cudaSuccess), absl::StatusCode::kOk);
  EXPECT_EQ(code(cudaErrorMemoryAllocation),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(cudaErrorNoDevice), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(cudaErrorInsufficientDriver),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(cudaErrorInvalidValue), absl::StatusCode::kInternal);
  EXPECT_EQ(code(cudaErrorIllegalAddress), absl::StatusCode::kUnavailable);
  const absl::Status status =
      CudaStatus(*cuda.api(), cudaErrorNotSupported, "cudaHostRegister");
  EXPECT_EQ(status.message(), "cudaHostRegister: cudaErrorFake: made to fail");
}

TEST(CudaApiTest, TheProgramDoesNotSeeOurErrorAndDoesNotLoseItsOwn) {
  FakeCuda cuda;
  cudaError_t& last = FakeCuda::last_error();
  last = cudaErrorMemoryAllocation;
  CudaStatus(*cuda.api(), cudaErrorMemoryAllocation, "ours").IgnoreError();
  EXPECT_EQ(last, cudaSuccess);
  last = cudaErrorLaunchOutOfResources;
  CudaStatus(*cuda.api(), cudaErrorNotReady, "ours").IgnoreError();
  CudaStatus(*cuda.api(), cudaSuccess, "ours").IgnoreError();
  EXPECT_EQ(last, cudaErrorLaunchOutOfResources);
}

TEST(CudaApiTest, AScopeGoesToItsDeviceAndBack) {
  FakeCuda cuda;
  {
    const CudaScope scope(*cuda.api(), 1);
    EXPECT_TRUE(scope.status().ok());
    EXPECT_EQ(FakeCuda::current_device(), 1);
  }
  EXPECT_EQ(FakeCuda::current_device(), 0);
}

TEST(CudaApiTest, AScopeThatFailsSaysSoAndLeavesEverythingAsItWas) {
  for (int call = 0; call < 3; ++call) {
    FakeCuda cuda;  // looks at the capture mode at its end
    cuda.FailCall(call, cudaErrorUnknown);
    {
      const CudaScope scope(*cuda.api(), 1);
      EXPECT_EQ(scope.status().code(), absl::StatusCode::kUnavailable);
    }
    EXPECT_EQ(FakeCuda::current_device(), 0);
    EXPECT_EQ(FakeCuda::last_error(), cudaSuccess);
  }
}

TEST(CudaApiTest, ADeviceHasANodeOrNone) {
  FakeCuda cuda;
  EXPECT_EQ(HostNodeOf(*cuda.api(), 0), 3);
  EXPECT_EQ(HostNodeOf(*cuda.api(), 1), std::nullopt);
  cuda.FailCall(cuda.calls(), cudaErrorInvalidValue);
  EXPECT_EQ(HostNodeOf(*cuda.api(), 0), std::nullopt);
}

}  // namespace
}  // namespace ebbtide
