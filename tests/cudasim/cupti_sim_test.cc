// The simulated CUPTI by itself: the buffer protocol, and its disorders.
#include "tests/cudasim/cupti_sim.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cudasim/cupti_control.h"

namespace cudasim {
namespace {

uint64_t now = 0;
uint64_t Now() { return now; }

// A profiler that keeps what it gets.
struct Client {
  std::mutex mutex;
  size_t size = 1024;
  size_t records = 0;
  bool declines = false;
  std::map<uint8_t*, std::vector<uint64_t>> lent;
  std::vector<std::vector<uint8_t>> got;
  std::thread::id thread;
};
Client* client = nullptr;

void Request(uint8_t** buffer, size_t* size, size_t* records) {
  const std::lock_guard lock(client->mutex);
  *buffer = nullptr;
  *size = 0;
  if (client->declines) return;
  std::vector<uint64_t> memory(client->size / 8);
  *buffer = reinterpret_cast<uint8_t*>(memory.data());
  *size = client->size;
  *records = client->records;
  client->lent.emplace(*buffer, std::move(memory));
}

void Complete(void*, uint32_t, uint8_t* buffer, size_t size, size_t valid) {
  const std::lock_guard lock(client->mutex);
  EXPECT_EQ(size, client->size);
  EXPECT_EQ(client->lent.count(buffer), 1);
  client->got.emplace_back(buffer, buffer + valid);
  client->lent.erase(buffer);
  client->thread = std::this_thread::get_id();
}

class CuptiSimTest : public testing::Test {
 protected:
  void SetUp() override {
    client = &client_;
    now = 100;
    cuptisim_reset();
    sim_.set_clock(&Now);
    ASSERT_EQ(sim_.Register({&Request, &Complete}), kCuptiOk);
    ASSERT_EQ(sim_.Enable(kKernelKind, true), kCuptiOk);
  }
  void TearDown() override { cuptisim_reset(); }

  void Kernel(uint64_t begin, uint64_t end) {
    sim_.NoteCall("cudaLaunchKernel", begin);
    sim_.NoteWork({.kind = kKernelKind, .begin = begin, .end = end});
  }
  static uint32_t KindAt(const std::vector<uint8_t>& bytes, size_t offset) {
    uint32_t kind = 0;
    memcpy(&kind, bytes.data() + offset, sizeof kind);
    return kind;
  }
  static uint64_t EndAt(const std::vector<uint8_t>& bytes, size_t offset) {
    uint64_t end = 0;
    memcpy(&end, bytes.data() + offset + 24, sizeof end);
    return end;
  }

  CuptiSim& sim_ = CuptiSim::Get();
  Client client_;
};

TEST_F(CuptiSimTest, AFlushDeliversOnAnotherThread) {
  Kernel(10, 20);
  EXPECT_TRUE(client_.got.empty());
  EXPECT_EQ(sim_.Flush(false), kCuptiOk);
  ASSERT_EQ(client_.got.size(), 1);
  EXPECT_EQ(client_.got[0].size(), 216);
  EXPECT_EQ(EndAt(client_.got[0], 0), 20);
  EXPECT_NE(client_.thread, std::this_thread::get_id());
  EXPECT_TRUE(client_.lent.empty());
}

TEST_F(CuptiSimTest, KernelRecordsOf132AreLonger) {
  cuptisim_set("version", 130202);
  Kernel(10, 20);
  sim_.Flush(false);
  ASSERT_EQ(client_.got.size(), 1);
  EXPECT_EQ(client_.got[0].size(), 224);
}

TEST_F(CuptiSimTest, WhatIsNotDoneHasTimesOnlyLater) {
  Kernel(90, 200);
  sim_.Flush(false);
  EXPECT_TRUE(client_.got.empty());
  now = 200;
  sim_.Flush(false);
  ASSERT_EQ(client_.got.size(), 1);
  EXPECT_EQ(EndAt(client_.got[0], 0), 200);
  Kernel(300, 400);
  sim_.Flush(true);
  ASSERT_EQ(client_.got.size(), 2);
  EXPECT_EQ(EndAt(client_.got[1], 0), 0);
}

TEST_F(CuptiSimTest, ExternalIdsPrecedeTheCallsThatAreRecorded) {
  sim_.Enable(kExternalKind, true);
  PushCuptiId(5, 42);
  Kernel(1, 2);  // its call is not recorded
  sim_.EnableCall(false, 211, true);
  Kernel(3, 4);
  uint64_t id = 0;
  EXPECT_TRUE(PopCuptiId(5, &id));
  EXPECT_EQ(id, 42);
  EXPECT_FALSE(PopCuptiId(5, &id));
  sim_.Flush(false);
  ASSERT_EQ(client_.got.size(), 1);
  const std::vector<uint8_t>& bytes = client_.got[0];
  ASSERT_EQ(bytes.size(), 216 + 24 + 40 + 216);
  EXPECT_EQ(KindAt(bytes, 216), kExternalKind);
  EXPECT_EQ(KindAt(bytes, 240), kRuntimeKind);
  EXPECT_EQ(KindAt(bytes, 280), kKernelKind);
}

TEST_F(CuptiSimTest, ADeclinedRequestDropsAndCounts) {
  client_.declines = true;
  Kernel(1, 2);
  Kernel(2, 3);
  sim_.Flush(false);
  EXPECT_EQ(sim_.TakeDropped(), 2);
  EXPECT_EQ(sim_.TakeDropped(), 0);
}

TEST_F(CuptiSimTest, BuffersAreFilledAsFarAsRecordsAndTheClientGo) {
  client_.size = 440;
  for (int i = 0; i < 5; ++i) Kernel(1, 2);
  sim_.Flush(false);
  EXPECT_EQ(client_.got.size(), 3);
  client_.records = 1;
  for (int i = 0; i < 5; ++i) Kernel(1, 2);
  sim_.Flush(false);
  EXPECT_EQ(client_.got.size(), 8);
}

TEST_F(CuptiSimTest, HeldBuffersComeBackWhenTheyAreReleased) {
  cuptisim_set("hold_buffers", 1000);
  Kernel(1, 2);
  sim_.Flush(true);
  EXPECT_EQ(client_.lent.size(), 1);
  EXPECT_TRUE(client_.got.empty());
  cuptisim_set("hold_buffers", 0);
  sim_.Flush(true);
  EXPECT_EQ(client_.lent.size(), 1);
  cuptisim_release();
  sim_.Flush(true);
  EXPECT_EQ(client_.got.size(), 1);
}

TEST_F(CuptiSimTest, ACutBufferEndsWithinItsLastRecord) {
  cuptisim_set("cut_buffers", 1000);
  Kernel(1, 2);
  Kernel(1, 2);
  sim_.Flush(true);
  ASSERT_EQ(client_.got.size(), 1);
  EXPECT_GT(client_.got[0].size(), 216);
  EXPECT_LT(client_.got[0].size(), 432);
  void* record = nullptr;
  EXPECT_EQ(NextCuptiRecord(client_.got[0].data(), client_.got[0].size(),
                            130001, &record),
            kCuptiOk);
  EXPECT_EQ(NextCuptiRecord(client_.got[0].data(), client_.got[0].size(),
                            130001, &record),
            kCuptiMaxLimitReached);
}

TEST_F(CuptiSimTest, TheSubscriberIsOne) {
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_EQ(sim_.Subscribe(&first), kCuptiOk);
  EXPECT_EQ(sim_.Subscribe(&second), kCuptiOneSubscriberOnly);
  EXPECT_EQ(sim_.Unsubscribe(first), kCuptiOk);
  cuptisim_set("subscribed", 1);
  EXPECT_EQ(sim_.Subscribe(&second), kCuptiOneSubscriberOnly);
}

TEST_F(CuptiSimTest, UnknownSettingsAndKindsAreRefused) {
  EXPECT_EQ(cuptisim_set("colour", 1), 1);
  EXPECT_EQ(sim_.Enable(99, true), kCuptiInvalidKind);
  EXPECT_EQ(sim_.Register({nullptr, &Complete}), kCuptiInvalidParameter);
}

}  // namespace
}  // namespace cudasim
