// A window on the simulated CUPTI: what it refuses, and what it leaves behind.
#include "profiler/cupti_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "profiler/cupti_join.h"
#include "profiler/cupti_kinds.h"
#include "tests/cudasim/cupti_control.h"
#include "tests/profiler/cupti_table.h"

namespace ebbtide {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CuptisimStats Stats() {
  CuptisimStats stats;
  cuptisim_stats(&stats);
  return stats;
}

class CuptiWindowTest : public testing::Test {
 protected:
  void SetUp() override {
    cuptisim_reset();
    cuptisim_set("version", 130001);
    unsetenv("CUDA_INJECTION64_PATH");
  }
  // Whatever happened, nothing is left.
  void TearDown() override {
    EXPECT_EQ(Stats().enabled, 0);
    EXPECT_EQ(Stats().device_buffers, 250);
    EXPECT_FALSE(CuptiCollector::Get().is_open());
  }

  std::unique_ptr<CuptiWindow> MustBegin(
      const CuptiWindowOptions& options = {}) {
    auto window = CuptiWindow::Begin(SimulatedCupti(), options);
    EXPECT_TRUE(window.ok()) << window.status();
    return window.ok() ? *std::move(window) : nullptr;
  }
  static std::string Refusal(const CuptiWindowOptions& options = {}) {
    const auto window = CuptiWindow::Begin(SimulatedCupti(), options);
    return window.ok() ? "" : std::string(window.status().message());
  }
  // A window around one kernel.
  std::string ErrorOfEnd(const CuptiWindowOptions& options = {}) {
    const auto window = MustBegin(options);
    device_.Start(kKernel, 5);
    device_.Wait();
    const auto records = window->End();
    return records.ok() ? "" : std::string(records.status().message());
  }

  static constexpr cudasim::CuptiRecord kKernel = {.kind = 10, .stream = 1};
  ClockDevice device_;
};

TEST_F(CuptiWindowTest, WorkIsKnownByTheInnermostIdOfItsThread) {
  const auto window = MustBegin();
  window->Push(1);
  device_.Start(kKernel, 5);
  window->Push(2);
  device_.Start(kKernel, 7);
  std::thread([&] { device_.Start(kKernel, 100); }).join();
  window->Pop();
  device_.Start(kKernel, 11);
  window->Pop();
  device_.Wait();
  const auto records = window->End();
  ASSERT_TRUE(records.ok()) << records.status();
  const auto profile = JoinWork(*records);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->by_id.at(1).kernels, (WorkSum{2, 16, Bytes{0}}));
  EXPECT_EQ(profile->by_id.at(2).kernels, (WorkSum{1, 7, Bytes{0}}));
  EXPECT_EQ(profile->unattributed.kernels, (WorkSum{1, 100, Bytes{0}}));
}

TEST_F(CuptiWindowTest, EnablesItsKindsAndCallsAndNoMore) {
  {
    const auto window = MustBegin();
    EXPECT_EQ(Stats().enabled,
              5 + std::size(kCuptiRuntimeCalls) + std::size(kCuptiDriverCalls));
    EXPECT_EQ(Stats().device_buffers, 8);
    // All runtime and driver calls would be far more records.
    EXPECT_EQ(cuptisim_calls("cuptiActivityEnable"), 5);
  }
  EXPECT_EQ(Stats().enabled, 0);
}

TEST_F(CuptiWindowTest, BeforeAndAfterItNothingIsRecorded) {
  device_.Start(kKernel, 5);
  const auto window = MustBegin();
  device_.Wait();
  EXPECT_EQ(window->End()->size(), 0);
  device_.Start(kKernel, 5);
  EXPECT_EQ(Stats().pending, 0);
  EXPECT_FALSE(window->End().ok());
}

TEST_F(CuptiWindowTest, TheSubscriberIsFreeWhileItIsOpen) {
  const auto window = MustBegin();
  void* subscriber = nullptr;
  EXPECT_EQ(SimulatedCupti().subscribe(&subscriber, nullptr, nullptr), 0);
  EXPECT_EQ(SimulatedCupti().unsubscribe(subscriber), 0);
}

TEST_F(CuptiWindowTest, AnotherProfilerIsNotDisturbed) {
  cuptisim_set("subscribed", 1);
  EXPECT_THAT(
      Refusal(),
      AllOf(HasSubstr("another profiler is active"),
            HasSubstr("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)")));
  cuptisim_set("subscribed", 0);
  EXPECT_EQ(Refusal({.other_profiler = [] { return "Kineto"; }}),
            "CUPTI: another profiler is active: Kineto");
  setenv("CUDA_INJECTION64_PATH", "/opt/nsys.so", 1);
  EXPECT_THAT(Refusal(), HasSubstr("CUDA_INJECTION64_PATH=/opt/nsys.so"));
  unsetenv("CUDA_INJECTION64_PATH");
  EXPECT_EQ(cuptisim_calls("cuptiActivityRegisterCallbacks"), 0);
  EXPECT_EQ(cuptisim_calls("cuptiActivityEnable"), 0);
  EXPECT_EQ(cuptisim_calls("cuptiActivitySetAttribute"), 0);
}

TEST_F(CuptiWindowTest, AProfilerThatBeginsMeanwhileKeepsItsKinds) {
  std::string active;
  const CuptiWindowOptions options = {.other_profiler = [&] { return active; }};
  const auto window = MustBegin(options);
  active = "Kineto";
  EXPECT_EQ(window->End().status().message(),
            "CUPTI: another profiler is active: Kineto");
  EXPECT_GT(Stats().enabled, 0);
  EXPECT_EQ(cuptisim_calls("cuptiActivityDisable"), 0);
  EXPECT_EQ(Stats().device_buffers, 250);
  active = "";
  EXPECT_TRUE(MustBegin(options)->End().ok());
  EXPECT_EQ(Stats().enabled, 0);
}

// Else the first records of its trace are in a buffer that it does not know.
TEST_F(CuptiWindowTest, AProfilerThatBeginsMeanwhileHasNoBufferOfOurs) {
  std::string active;
  const CuptiWindowOptions options = {.other_profiler = [&] { return active; }};
  const auto window = MustBegin(options);
  device_.Start(kKernel, 5);
  EXPECT_EQ(CuptiCollector::Get().lent(), 1);
  device_.Wait();
  active = "Kineto";
  EXPECT_FALSE(window->End().ok());
  EXPECT_EQ(Stats().pending, 0);
  EXPECT_EQ(CuptiCollector::Get().lent(), 0);
  EXPECT_TRUE(CuptiWindow::DisableAll(SimulatedCupti()).ok());
  EXPECT_EQ(Stats().enabled, 0);
}

TEST_F(CuptiWindowTest, OnlyOneAtATime) {
  const auto window = MustBegin();
  EXPECT_EQ(Refusal(), "CUPTI: a window is open already");
}

TEST_F(CuptiWindowTest, UnknownVersionsAreRefusedBeforeAnythingIsDone) {
  cuptisim_set("version", 130300);
  EXPECT_THAT(Refusal(), HasSubstr("CUPTI 130300 is not known"));
  EXPECT_EQ(cuptisim_calls("cuptiSubscribe"), 0);
}

TEST_F(CuptiWindowTest, ARefusalAtAnyCallOfTheBeginLeavesNothingBehind) {
  MustBegin()->End().status().IgnoreError();
  for (const char* function :
       {"cuptiGetVersion", "cuptiSubscribe", "cuptiUnsubscribe",
        "cuptiActivityGetAttribute", "cuptiActivitySetAttribute",
        "cuptiActivityRegisterCallbacks", "cuptiActivityGetNumDroppedRecords",
        "cuptiActivityEnableRuntimeApi", "cuptiActivityEnableDriverApi"}) {
    cuptisim_reset();
    cuptisim_fail(function, 0, 1, 35);
    EXPECT_THAT(Refusal(),
                AllOf(HasSubstr(function),
                      HasSubstr("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)")));
    EXPECT_EQ(Stats().enabled, 0) << function;
    EXPECT_EQ(Stats().device_buffers, 250) << function;
  }
  for (const int kind : {0, 1, 2, 3, 4}) {
    cuptisim_reset();
    cuptisim_fail("cuptiActivityEnable", kind, 1, 999);
    EXPECT_THAT(Refusal(), HasSubstr("cuptiActivityEnable("));
    EXPECT_EQ(Stats().enabled, 0) << kind;
  }
}

TEST_F(CuptiWindowTest, ARefusalAtTheEndIsToldAndTheRestIsDone) {
  for (const char* function :
       {"cuptiActivityFlushAll", "cuptiActivityGetNextRecord",
        "cuptiActivityPushExternalCorrelationId",
        "cuptiActivityPopExternalCorrelationId"}) {
    cuptisim_reset();
    cuptisim_fail(function, 0, 1, 999);
    const auto window = MustBegin({.patience = std::chrono::milliseconds(1)});
    window->Push(1);
    device_.Start(kKernel, 1);
    window->Pop();
    device_.Wait();
    const auto records = window->End();
    ASSERT_FALSE(records.ok()) << function;
    EXPECT_THAT(std::string(records.status().message()), HasSubstr(function));
    EXPECT_EQ(Stats().enabled, 0) << function;
    uint64_t id = 0;  // a Pop that failed
    SimulatedCupti().activity_pop_external_correlation_id(5, &id);
  }
}

TEST_F(CuptiWindowTest, DroppedRecordsAreRefusedByNumber) {
  cuptisim_set("drop_records", 1000);
  EXPECT_EQ(ErrorOfEnd(), "CUPTI: 2 records were dropped");
  cuptisim_set("drop_records", 0);
  EXPECT_EQ(ErrorOfEnd(), "");
}

TEST_F(CuptiWindowTest, WhatWasDroppedBeforeItIsNotItsLoss) {
  cuptisim_set("drop_records", 1000);
  EXPECT_NE(ErrorOfEnd({.other_profiler = {}}), "");
  cuptisim_fail("cuptiActivityGetNumDroppedRecords", 1, 1, 999);
  EXPECT_THAT(ErrorOfEnd(), HasSubstr("GetNumDroppedRecords"));
  cuptisim_set("drop_records", 0);
  EXPECT_EQ(ErrorOfEnd(), "");
}

TEST_F(CuptiWindowTest, BuffersThatDoNotComeBackAreRefused) {
  cuptisim_set("hold_buffers", 1000);
  const CuptiWindowOptions hasty = {.patience = std::chrono::milliseconds(1)};
  EXPECT_EQ(ErrorOfEnd(hasty), "CUPTI: 1 buffers did not come back");
  cuptisim_set("hold_buffers", 0);
  cuptisim_release();
  EXPECT_EQ(ErrorOfEnd(hasty), "");
  EXPECT_EQ(CuptiCollector::Get().lent(), 0);
}

TEST_F(CuptiWindowTest, ACutBufferIsRefusedByItsPlace) {
  cuptisim_set("cut_buffers", 1000);
  EXPECT_THAT(ErrorOfEnd(), HasSubstr("CUPTI buffer 1, offset 40, record of"));
}

TEST_F(CuptiWindowTest, AWindowTooSmallForItsRecordsIsRefused) {
  CuptiWindowOptions options;
  options.limits = {.buffer = 64, .buffers = 1};  // no kernel goes into it
  EXPECT_NE(ErrorOfEnd(options), "");
  EXPECT_GT(Stats().dropped, 0);
}

TEST_F(CuptiWindowTest, ALateFlushIsWaitedFor) {
  cuptisim_set("late_us", 3000);
  EXPECT_EQ(ErrorOfEnd({.patience = std::chrono::seconds(60)}), "");
}

TEST_F(CuptiWindowTest, WhatStillRunsHasNoTimes) {
  const auto window = MustBegin();
  device_.Start(kKernel, 1000);
  const auto records = window->End();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(std::string(JoinWork(*records).status().message()),
              HasSubstr("has no times"));
}

// Each call of CUPTI waits for a thread that brings and takes a buffer. With a
// lock of ours held it would wait for ever.
CuptiResult WithBuffersMoving(CuptiResult result) {
  std::thread([] {
    uint8_t* buffer = nullptr;
    size_t size = 0;
    size_t records = 0;
    CuptiCollector::Get().Request(&buffer, &size, &records);
    if (buffer != nullptr) CuptiCollector::Get().Complete(buffer, 0);
  }).join();
  return result;
}

template <auto kMember>
struct Moving;
template <typename... Arguments,
          CuptiResult (*CuptiApi::*kMember)(Arguments...)>
struct Moving<kMember> {
  static CuptiResult Call(Arguments... arguments) {
    return WithBuffersMoving((SimulatedCupti().*kMember)(arguments...));
  }
};

template <auto... kMembers>
CuptiApi MakeMoving() {
  CuptiApi api = SimulatedCupti();
  ((api.*kMembers = &Moving<kMembers>::Call), ...);
  return api;
}

TEST_F(CuptiWindowTest, NoLockIsHeldInAnyCall) {
  static const CuptiApi api = MakeMoving<
      &CuptiApi::get_version, &CuptiApi::subscribe, &CuptiApi::unsubscribe,
      &CuptiApi::activity_register_callbacks, &CuptiApi::activity_enable,
      &CuptiApi::activity_disable, &CuptiApi::activity_enable_runtime_api,
      &CuptiApi::activity_enable_driver_api,
      &CuptiApi::activity_push_external_correlation_id,
      &CuptiApi::activity_pop_external_correlation_id,
      &CuptiApi::activity_flush_all, &CuptiApi::activity_get_next_record,
      &CuptiApi::activity_get_num_dropped_records,
      &CuptiApi::activity_get_attribute, &CuptiApi::activity_set_attribute>();
  auto window = CuptiWindow::Begin(api);
  ASSERT_TRUE(window.ok()) << window.status();
  (*window)->Push(1);
  device_.Start(kKernel, 5);
  (*window)->Pop();
  device_.Wait();
  const auto records = (*window)->End();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->size(), 3);
}

}  // namespace
}  // namespace ebbtide
