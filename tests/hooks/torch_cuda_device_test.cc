#include "hooks/cuda_device.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAStream.h>

#include <thread>

#include "gtest/gtest.h"

namespace ebbtide {
namespace {

// It is gone, and what lies there is anything.
TEST(CudaDeviceTest, AnExitHandlerDoesNotAskForTheStreamOfItsThread) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  const auto api = CudaApi::Loaded();
  ASSERT_TRUE(api.ok()) << api.status();
  CudaDevice device(*api, 1);
  const c10::Stream of_device = c10::cuda::getDefaultCUDAStream(0);
  std::thread([&] {
    const c10::cuda::CUDAStream own = c10::cuda::getStreamFromPool();
    c10::cuda::setCurrentCUDAStream(own);
    EXPECT_EQ(device.CurrentStream(0), own.unwrap());
    device.BeginExit();
    EXPECT_EQ(device.CurrentStream(0), of_device);
  }).join();
  // Other threads go on.
  EXPECT_EQ(device.CurrentStream(0), c10::cuda::getCurrentCUDAStream(0));
}

}  // namespace
}  // namespace ebbtide
