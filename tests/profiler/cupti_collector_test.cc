#include "profiler/cupti_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "profiler/cupti_api.h"
#include "tests/cudasim/cupti_record.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;

CuptiResult Next(uint8_t* buffer, size_t valid, void** record) {
  return cudasim::NextCuptiRecord(buffer, valid, 130001, record);
}

constexpr CuptiCollector::Limits kSmall = {
    .buffer = 64, .buffers = 2, .records = 3};

// As CUPTI does it.
struct Lent {
  uint8_t* begin = nullptr;
  size_t size = 0;
};
Lent Ask(CuptiCollector* collector) {
  Lent lent;
  size_t records = 1;
  collector->Request(&lent.begin, &lent.size, &records);
  EXPECT_EQ(records, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(lent.begin) % 8, 0);
  return lent;
}

void Return(CuptiCollector* collector, const Lent& lent, uint64_t id,
            size_t records = 1) {
  for (size_t i = 0; i < records; ++i) {
    cudasim::WriteCuptiRecord(
        {.kind = 39, .correlation = 1, .external_kind = 5, .external_id = id},
        130001, reinterpret_cast<std::byte*>(lent.begin + 24 * i));
  }
  collector->Complete(lent.begin, 24 * records);
}

void Open(CuptiCollector* collector) {
  ASSERT_TRUE(collector->Open(kCupti130, &Next, kSmall).ok());
}

TEST(CuptiCollectorTest, LentBuffersComeBackAsRecords) {
  CuptiCollector collector;
  Open(&collector);
  const Lent one = Ask(&collector);
  const Lent two = Ask(&collector);
  EXPECT_EQ(one.size, 64);
  Return(&collector, two, 2, 2);
  Return(&collector, one, 1);
  EXPECT_TRUE(collector.AwaitBuffers(std::chrono::nanoseconds(0)));
  const auto collected = collector.Close();
  EXPECT_TRUE(collected.status.ok()) << collected.status;
  EXPECT_EQ(collected.records.externals.size(), 3);
  EXPECT_EQ(collector.lent(), 0);
}

TEST(CuptiCollectorTest, ARequestBeyondTheLimitIsDeclinedAndTold) {
  CuptiCollector collector;
  Open(&collector);
  const Lent one = Ask(&collector);
  const Lent two = Ask(&collector);
  EXPECT_EQ(Ask(&collector).begin, nullptr);
  Return(&collector, one, 1);
  Return(&collector, two, 2);
  EXPECT_NE(Ask(&collector).begin, nullptr);
  const auto collected = collector.Close();
  EXPECT_THAT(std::string(collected.status.message()),
              HasSubstr("1 requests for a buffer beyond 2 of 64 bytes"));
}

TEST(CuptiCollectorTest, OutsideOfAWindowNothingIsLent) {
  CuptiCollector collector;
  EXPECT_EQ(Ask(&collector).begin, nullptr);
  EXPECT_FALSE(collector.is_open());
  EXPECT_FALSE(collector.Close().status.ok());
}

TEST(CuptiCollectorTest,
     ABufferOfAnEarlierWindowStaysValidAndCountsForNothing) {
  CuptiCollector collector;
  Open(&collector);
  const Lent stale = Ask(&collector);
  EXPECT_FALSE(collector.AwaitBuffers(std::chrono::milliseconds(1)));
  EXPECT_EQ(collector.Close().lost_buffers, 1);
  Open(&collector);
  EXPECT_EQ(collector.lent(), 1);  // and so the memory stays bounded
  const Lent fresh = Ask(&collector);
  EXPECT_EQ(Ask(&collector).begin, nullptr);
  Return(&collector, stale, 1);
  Return(&collector, fresh, 2);
  EXPECT_TRUE(collector.AwaitBuffers(std::chrono::nanoseconds(0)));
  const auto collected = collector.Close();
  ASSERT_EQ(collected.records.externals.size(), 1);
  EXPECT_EQ(collected.records.externals[0].id, 2);
  EXPECT_EQ(collected.lost_buffers, 0);
  EXPECT_EQ(collector.lent(), 0);
}

TEST(CuptiCollectorTest, RecordsBeyondTheLimitAreRefused) {
  CuptiCollector collector;
  Open(&collector);
  Return(&collector, Ask(&collector), 1, 2);
  Return(&collector, Ask(&collector), 1, 2);
  const auto collected = collector.Close();
  EXPECT_EQ(collected.status.message(), "CUPTI: more than 3 records");
  EXPECT_EQ(collected.records.size(), 0);
}

TEST(CuptiCollectorTest, WhatIsSaidOfABufferIsChecked) {
  CuptiCollector collector;
  Open(&collector);
  const Lent lent = Ask(&collector);
  collector.Complete(lent.begin, 65);
  EXPECT_THAT(std::string(collector.Close().status.message()),
              HasSubstr("buffer 1: 65 of 64 bytes"));
  Open(&collector);
  uint64_t mine = 0;
  collector.Complete(reinterpret_cast<uint8_t*>(&mine), 8);
  EXPECT_THAT(std::string(collector.Close().status.message()),
              HasSubstr("was not lent"));
}

TEST(CuptiCollectorTest, ManyThreadsBringBuffersWhileTheWindowEnds) {
  CuptiCollector collector;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(
        collector.Open(kCupti130, &Next, {.buffer = 64, .buffers = 4}).ok());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 20; ++n) {
          const Lent lent = Ask(&collector);
          if (lent.begin != nullptr) Return(&collector, lent, 1);
        }
      });
    }
    const auto collected = collector.Close();
    EXPECT_TRUE(collected.status.ok()) << collected.status;
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(collector.lent(), 0);
}

}  // namespace
}  // namespace ebbtide
