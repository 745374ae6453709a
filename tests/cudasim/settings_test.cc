#include "tests/cudasim/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cudasim {
namespace {

class SettingsTest : public testing::Test {
 protected:
  // Variables of the test alone.
  static void Set(const char* variable, const char* value) {
    ASSERT_EQ(setenv(variable, value, 1), 0);
  }
  void TearDown() override {
    for (const char* variable :
         {"CUDASIM_MEM", "CUDASIM_DEVICES", "CUDASIM_SCHEDULE",
          "CUDASIM_POISON", "CUDASIM_H2D_GBPS", "CUDASIM_ADDRESSES",
          "CUDASIM_DEVICE_FILE", "CUDASIM_SMS", "CUDASIM_BYTES",
          "CUDASIM_OP_HOST_US", "CUDASIM_BACKWARD_OP_HOST_US",
          "CUDASIM_OWN_BASE_US", "CUDASIM_BACKWARD_OWN_BASE_US"}) {
      unsetenv(variable);
    }
  }
};

TEST_F(SettingsTest, SizesHaveUnits) {
  for (const auto& [text, bytes] : {std::pair{"1000", uint64_t{1000}},
                                    {"3K", uint64_t{3} << 10},
                                    {"5M", uint64_t{5} << 20},
                                    {"7G", uint64_t{7} << 30}}) {
    Set("CUDASIM_MEM", text);
    EXPECT_EQ(Settings::FromEnvironment().heap.capacity, bytes) << text;
  }
}

TEST_F(SettingsTest, WhatIsNotSetKeepsItsDefault) {
  const Settings settings = Settings::FromEnvironment();
  EXPECT_EQ(settings.heap.devices, 1);
  EXPECT_EQ(settings.heap.capacity, uint64_t{4} << 30);
  EXPECT_EQ(settings.heap.poison, std::nullopt);
  EXPECT_EQ(settings.schedule, Schedule::kLate);
}

TEST_F(SettingsTest, ReadsNamesAndNumbers) {
  Set("CUDASIM_SCHEDULE", "race");
  Set("CUDASIM_POISON", "0xff");
  Set("CUDASIM_H2D_GBPS", "0.5");
  Set("CUDASIM_ADDRESSES", "64G");
  const Settings settings = Settings::FromEnvironment();
  EXPECT_EQ(settings.heap.address_space, uint64_t{64} << 30);
  EXPECT_EQ(settings.schedule, Schedule::kRace);
  EXPECT_EQ(settings.heap.poison, 0xff);
  EXPECT_EQ(settings.rates.h2d_gbps, 0.5);
}

TEST_F(SettingsTest, ADeviceFileGivesTimesAndSizeThatOtherVariablesChange) {
  EXPECT_FALSE(Settings::FromEnvironment().device);
  Set("CUDASIM_DEVICE_FILE", EBBTIDE_TEST_DATA "/h100/device.json");
  EXPECT_EQ(Settings::FromEnvironment().multiprocessors, 132);
  Set("CUDASIM_SMS", "7");
  const Settings settings = Settings::FromEnvironment();
  ASSERT_TRUE(settings.device);
  EXPECT_EQ(settings.multiprocessors, 7);
}

TEST_F(SettingsTest, TimesOfTheHostAreInMicroseconds) {
  Set("CUDASIM_OP_HOST_US", "20");
  Set("CUDASIM_BACKWARD_OP_HOST_US", "10.5");
  EXPECT_FALSE(Settings::FromEnvironment().host_time.counts_own);
  Set("CUDASIM_OWN_BASE_US", "8");
  Set("CUDASIM_BACKWARD_OWN_BASE_US", "5");
  const HostTimeOptions host = Settings::FromEnvironment().host_time;
  EXPECT_TRUE(host.counts_own);
  EXPECT_EQ(host.main.op_ns, 20000);
  EXPECT_EQ(host.main.base_ns, 8000);
  EXPECT_EQ(host.autograd.op_ns, 10500);
  EXPECT_EQ(host.autograd.base_ns, 5000);
}

using SettingsDeathTest = SettingsTest;

TEST_F(SettingsDeathTest, ADeviceFileThatIsMissingEndsTheProcess) {
  Set("CUDASIM_DEVICE_FILE", "/nowhere/device.json");
  EXPECT_DEATH(Settings::FromEnvironment(),
               "CUDASIM_DEVICE_FILE: /nowhere/device.json: cannot be read");
}

TEST_F(SettingsDeathTest, PoisonNeedsBytes) {
  Set("CUDASIM_POISON", "1");
  Set("CUDASIM_BYTES", "0");
  EXPECT_DEATH(Settings::FromEnvironment(), "CUDASIM_POISON=1 makes no sense");
}

TEST_F(SettingsDeathTest, WhatMakesNoSenseEndsTheProcess) {
  Set("CUDASIM_DEVICES", "two");
  EXPECT_DEATH(Settings::FromEnvironment(), "CUDASIM_DEVICES=two");
}

}  // namespace
}  // namespace cudasim
