#include "tests/cudasim/device_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace cudasim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kMeasured[] = EBBTIDE_TEST_DATA "/h100/device.json";

std::string Measured() {
  std::ifstream file(kMeasured);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The measurement with the first `from` in it replaced.
std::string Changed(const std::string& from, const std::string& to) {
  std::string text = Measured();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Tests run side by side, each in a process of its own.
std::string ErrorOf(const std::string& text) {
  const std::string path =
      testing::TempDir() + "/DeviceModelTest." +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream(path) << text;
  std::string error;
  EXPECT_EQ(ReadDeviceModel(path, &error), std::nullopt);
  EXPECT_THAT(error, HasSubstr(path));
  return error;
}

TEST(DeviceModelTest, TakesCallsCopiesAndRatesFromTheMeasurement) {
  std::string error;
  const auto model = ReadDeviceModel(kMeasured, &error);
  ASSERT_TRUE(model) << error;
  EXPECT_EQ(model->name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(model->multiprocessors, 132);
  EXPECT_DOUBLE_EQ(model->CallTime("cudaEventRecord"), 9770);
  EXPECT_DOUBLE_EQ(model->CallTime("cudaLaunchKernel"), 10487);
  EXPECT_DOUBLE_EQ(model->CallTime("cublasLtMatmul"), 10487);
  EXPECT_DOUBLE_EQ(model->CallTime("cudaEventQuery"), 1875);
  EXPECT_EQ(model->CallTime("cudaGetDevice"), 0);
  EXPECT_TRUE(IsLookup("cudaGetDevice"));
  EXPECT_FALSE(IsLookup("cudaStreamSynchronize"));
  EXPECT_DOUBLE_EQ(model->both_ways, 48.382);
  EXPECT_NEAR(model->copy_start, 2043, 10);
  EXPECT_NEAR(model->product_flops, 706e3, 1e3);
  EXPECT_NEAR(model->memory_bytes, 2826, 2);
}

TEST(DeviceModelTest, InterpolatesBetweenMeasuredSizesAndExtrapolatesBeyond) {
  const SizeCurve curve({{100, 10}, {200, 30}, {400, 50}});
  EXPECT_DOUBLE_EQ(curve.At(1), 10);
  EXPECT_DOUBLE_EQ(curve.At(150), 20);
  EXPECT_DOUBLE_EQ(curve.At(300), 40);
  EXPECT_DOUBLE_EQ(curve.At(800), 90);
}

TEST(DeviceModelTest, ASmallSizeCostsNoMoreThanALargerOne) {
  const SizeCurve curve({{2, 308}, {20, 89}, {64, 65}, {256, 78}});
  EXPECT_DOUBLE_EQ(curve.At(2), 65);
  EXPECT_DOUBLE_EQ(curve.At(20), 65);
  EXPECT_DOUBLE_EQ(curve.At(256), 78);
}

TEST(DeviceModelTest, RefusesAnEntryThatIsMissingNegativeOrNotFinite) {
  EXPECT_THAT(ErrorOf(Changed("\"launch_us\": 10.487,", "")),
              HasSubstr("launch_us is missing"));
  EXPECT_THAT(ErrorOf(Changed("\"launch_us\": 10.487", "\"launch_us\": -3")),
              AllOf(HasSubstr("launch_us is -3"), HasSubstr("positive")));
  EXPECT_THAT(ErrorOf(Changed("\"launch_us\": 10.487", "\"launch_us\": 0")),
              HasSubstr("launch_us is 0"));
  EXPECT_THAT(ErrorOf(Changed("\"launch_us\": 10.487", "\"launch_us\": \"x\"")),
              HasSubstr("launch_us is no number"));
  EXPECT_THAT(ErrorOf(Changed("\"launch_us\": 10.487", "\"launch_us\": 1e999")),
              HasSubstr("1e999"));
  EXPECT_THAT(
      ErrorOf(Changed("\"name\": \"NVIDIA H100 80GB HBM3\"", "\"name\": 3")),
      HasSubstr("name is no text"));
}

TEST(DeviceModelTest, RefusesAFileThatIsNoMeasurement) {
  EXPECT_THAT(ErrorOf("[1, 2]"), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf("{\"launch_us\": "), HasSubstr("parse error"));
  std::string error;
  EXPECT_EQ(ReadDeviceModel("/nowhere/device.json", &error), std::nullopt);
  EXPECT_EQ(error, "/nowhere/device.json: cannot be read");
}

}  // namespace
}  // namespace cudasim
