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
          "CUDASIM_POISON", "CUDASIM_H2D_GBPS", "CUDASIM_ADDRESSES"}) {
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

using SettingsDeathTest = SettingsTest;

TEST_F(SettingsDeathTest, WhatMakesNoSenseEndsTheProcess) {
  Set("CUDASIM_DEVICES", "two");
  EXPECT_DEATH(Settings::FromEnvironment(), "CUDASIM_DEVICES=two");
}

}  // namespace
}  // namespace cudasim
