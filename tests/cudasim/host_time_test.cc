#include "tests/cudasim/host_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace cudasim {
namespace {

constexpr HostTimeOptions kCounted = {
    .main = {.op_ns = 2000, .base_ns = 1000},
    .autograd = {.op_ns = 300, .base_ns = 100},
    .counts_own = true};

// Keeps the processor busy; how long, by its own clock.
uint64_t Compute(std::chrono::milliseconds time) {
  const auto begin = std::chrono::steady_clock::now();
  auto now = begin;
  while (now - begin < time) now = std::chrono::steady_clock::now();
  return std::chrono::nanoseconds(now - begin).count();
}

// A call: what passes when it is entered.
uint64_t Call(HostTime* time) {
  const uint64_t passed = time->Enter();
  time->Leave();
  return passed;
}

TEST(HostTimeTest, AnOpTakesItsConstantByThread) {
  HostTime time({.main = {.op_ns = 2000}, .autograd = {.op_ns = 300}});
  EXPECT_EQ(time.Op(), 2000);
  std::thread([&time] { EXPECT_EQ(time.Op(), 300); }).join();
  EXPECT_EQ(time.main().ops, 1);
  EXPECT_EQ(time.autograd().ops, 1);
}

TEST(HostTimeTest, WithoutABaseTheProgramsOwnTimeDoesNotPass) {
  HostTime time({.main = {.op_ns = 2000}});
  Call(&time);
  Compute(std::chrono::milliseconds(5));
  EXPECT_EQ(Call(&time), 0);
  EXPECT_GT(time.main().cpu_ns, 0);  // it is measured all the same
}

TEST(HostTimeTest, WhatIsBeyondTheBasePassesInItsProportion) {
  HostTime time(kCounted);
  Call(&time);
  const uint64_t begin = time.main().cpu_ns;
  Compute(std::chrono::milliseconds(5));
  const uint64_t passed = Call(&time);
  EXPECT_EQ(passed, 2 * (time.main().cpu_ns - begin));
  EXPECT_GT(passed, 0);
}

TEST(HostTimeTest, TimeWithinTheBaseOfOpsIsInTheirConstant) {
  HostTime time(kCounted);
  Call(&time);
  for (int i = 0; i < 1'000'000; ++i) time.Op();  // a second of base
  Compute(std::chrono::milliseconds(5));
  EXPECT_EQ(Call(&time), 0);
}

TEST(HostTimeTest, TimeInsideOfTheSimulatorDoesNotCount) {
  HostTime time(kCounted);
  Call(&time);
  time.Enter();
  const uint64_t before = time.main().cpu_ns;
  Compute(std::chrono::milliseconds(5));
  Call(&time);  // nested
  time.Leave();
  EXPECT_EQ(time.main().cpu_ns, before);
}

TEST(HostTimeTest, AThreadInTheBackgroundDoesNotCountUntilItRunsOps) {
  HostTime time(kCounted);
  std::thread([&time] {
    Call(&time);
    Compute(std::chrono::milliseconds(5));
    EXPECT_EQ(Call(&time), 0);
    EXPECT_FALSE(HostTime::Counts());
    HostTime::Count();
    Call(&time);
    Compute(std::chrono::milliseconds(5));
    EXPECT_GT(Call(&time), 0);
  }).join();
  EXPECT_EQ(time.main().cpu_ns, 0);
  EXPECT_GT(time.autograd().cpu_ns, 0);
}

TEST(HostTimeTest, TimePassesWhileAllSleep) {
  HostTime time(kCounted);
  Call(&time);
  EXPECT_EQ(time.Asleep(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  EXPECT_GE(time.Asleep(), 70'000'000);
  EXPECT_GE(Call(&time), 70'000'000);
  EXPECT_EQ(time.Asleep(), 0);
}

}  // namespace
}  // namespace cudasim
