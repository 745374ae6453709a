// The simulated CUPTI behind the simulated runtime, found by name as a program
// finds it: what the profile says is what the virtual clock shows.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "profiler/cupti_join.h"
#include "profiler/cupti_window.h"
#include "tests/cudasim/control.h"
#include "tests/cudasim/cupti_control.h"

extern "C" void __cudaRegisterFunction(void** binary, const char* stub, char*,
                                       const char* name, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace ebbtide {
namespace {

constexpr size_t kSize = size_t{8} << 20;
constexpr char kStub = 0;

void SetCupti(const char* name, int64_t value) {
  void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto set =
      reinterpret_cast<decltype(&cuptisim_set)>(dlsym(library, "cuptisim_set"));
  ASSERT_EQ(set(name, value), 0);
  dlclose(library);
}

class CuptiRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto api = CuptiApi::Loaded();
    ASSERT_TRUE(api.ok()) << api.status();
    api_ = *api;
    __cudaRegisterFunction(nullptr, &kStub, nullptr, "kernel", 0, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    ASSERT_EQ(cudaMalloc(&device_, kSize), 0);
    ASSERT_EQ(cudaMallocHost(&host_, kSize), 0);
    for (cudaStream_t& stream : streams_) {
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    }
    // The host takes no time: between an event and what follows it is nothing.
    cudasim_set_rates(25, 20, 5, 0);
  }
  void TearDown() override {
    cudasim_set_rates(25, 25, 5, 1);
    cudasim_set_schedule(CUDASIM_LATE);
    for (cudaStream_t stream : streams_) {
      EXPECT_EQ(cudaStreamDestroy(stream), 0);
    }
    EXPECT_EQ(cudaFree(device_), 0);
    EXPECT_EQ(cudaFreeHost(host_), 0);
  }

  std::unique_ptr<CuptiWindow> MustBegin() {
    auto window = CuptiWindow::Begin(*api_);
    EXPECT_TRUE(window.ok()) << window.status();
    return *std::move(window);
  }
  static WorkProfile MustJoin(CuptiWindow* window) {
    const auto records = window->End();
    EXPECT_TRUE(records.ok()) << records.status();
    const auto profile = JoinWork(*records);
    EXPECT_TRUE(profile.ok()) << profile.status();
    return *profile;
  }

  // One of whatever there is.
  void Start(uint32_t kind, size_t size, cudaStream_t stream) {
    switch (kind % 5) {
      case 0:
        ASSERT_EQ(cudaLaunchKernel(&kStub, {1}, {1}, nullptr, 0, stream), 0);
        break;
      case 1: {  // as a library does it
        const CudasimWork work{"product", double(size), nullptr, nullptr,
                               nullptr,   nullptr,      0};
        ASSERT_EQ(cudasim_enqueue(stream, &work), 0);
        break;
      }
      case 2:
        ASSERT_EQ(
            cudaMemcpyAsync(device_, host_, size, cudaMemcpyDefault, stream),
            0);
        break;
      case 3:
        ASSERT_EQ(
            cudaMemcpyAsync(host_, device_, size, cudaMemcpyDefault, stream),
            0);
        break;
      default:
        ASSERT_EQ(cudaMemsetAsync(device_, 0, size, stream), 0);
        break;
    }
  }

  const CuptiApi* api_ = nullptr;
  void* device_ = nullptr;
  void* host_ = nullptr;
  cudaStream_t streams_[3] = {};
};

int64_t NanosOf(const WorkTotals& totals) {
  int64_t nanos = totals.kernels.nanos + totals.sets.nanos;
  for (const WorkSum& copies : totals.copies) nanos += copies.nanos;
  return nanos;
}

// Events around each piece of work: what the clock itself says.
class Stopwatch {
 public:
  Stopwatch(uint64_t id, cudaStream_t stream) : id_(id), stream_(stream) {
    EXPECT_EQ(cudaEventCreate(&begin_), 0);
    EXPECT_EQ(cudaEventCreate(&end_), 0);
    EXPECT_EQ(cudaEventRecord(begin_, stream_), 0);
  }
  void Stop() { EXPECT_EQ(cudaEventRecord(end_, stream_), 0); }
  uint64_t id() const { return id_; }
  double TakeNanos() {
    float ms = 0;
    EXPECT_EQ(cudaEventElapsedTime(&ms, begin_, end_), 0);
    EXPECT_EQ(cudaEventDestroy(begin_), 0);
    EXPECT_EQ(cudaEventDestroy(end_), 0);
    return ms * 1e6;
  }

 private:
  uint64_t id_;
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

TEST_F(CuptiRuntimeTest, AttributedTimeIsTheClocksUnderAllSchedules) {
  for (const int schedule : {CUDASIM_EAGER, CUDASIM_ONTIME, CUDASIM_LATE,
                             CUDASIM_RACE, CUDASIM_RANDOM}) {
    SCOPED_TRACE(schedule);
    cudasim_set_schedule(schedule);
    SetCupti("version", schedule % 2 == 0 ? 130001 : 130202);
    std::mt19937 random(schedule);
    const auto window = MustBegin();
    std::vector<Stopwatch> watches;
    for (int i = 0; i < 300; ++i) {
      const uint64_t id = random() % 8;
      const uint32_t kind = random();
      // A copy that waits for its engine has a gap before it, which is no work;
      // so the copies share a stream.
      const bool copies = kind % 5 == 2 || kind % 5 == 3;
      cudaStream_t const stream = streams_[copies ? 0 : random() % 3];
      if (id != 0) window->Push(id);
      watches.emplace_back(id, stream);
      Start(kind, 1 + random() % kSize, stream);
      watches.back().Stop();
      if (id != 0) window->Pop();
    }
    ASSERT_EQ(cudaDeviceSynchronize(), 0);
    const WorkProfile profile = MustJoin(window.get());
    std::map<uint64_t, double> clock;
    double all = 0;
    for (Stopwatch& watch : watches) {
      const double nanos = watch.TakeNanos();
      clock[watch.id()] += nanos;
      all += nanos;
    }
    int64_t sum = NanosOf(profile.unattributed);
    EXPECT_NEAR(sum, clock[0], clock[0] / 1000);
    for (const auto& [id, totals] : profile.by_id) {
      EXPECT_NEAR(NanosOf(totals), clock[id], clock[id] / 1000) << id;
      sum += NanosOf(totals);
    }
    EXPECT_EQ(profile.by_id.size(), 7);
    EXPECT_NEAR(sum, all, all / 1000);
    ASSERT_EQ(profile.devices.size(), 1);
    EXPECT_LT(profile.devices[0].any, sum);  // streams overlap
  }
}

TEST_F(CuptiRuntimeTest, OneBusyStreamIsBusyFromBeginToEnd) {
  const auto window = MustBegin();
  CudasimStats before;
  CudasimStats after;
  cudasim_stats(&before);
  window->Push(1);
  for (int i = 0; i < 100; ++i) Start(i, 1000 + i, streams_[0]);
  window->Pop();
  ASSERT_EQ(cudaStreamSynchronize(streams_[0]), 0);
  cudasim_stats(&after);
  const WorkProfile profile = MustJoin(window.get());
  const auto elapsed = static_cast<int64_t>(after.now_ns - before.now_ns);
  ASSERT_EQ(profile.devices.size(), 1);
  EXPECT_EQ(profile.devices[0].any, elapsed);
  EXPECT_EQ(NanosOf(profile.by_id.at(1)), elapsed);
  EXPECT_EQ(NanosOf(profile.unattributed), 0);
}

TEST_F(CuptiRuntimeTest, CopiesHaveTheirBytesAndDirections) {
  const auto window = MustBegin();
  window->Push(9);
  Start(2, 1000, streams_[0]);
  Start(3, 300, streams_[0]);
  Start(4, 70, streams_[0]);
  ASSERT_EQ(cudaMemcpyAsync(static_cast<char*>(device_) + 4096, device_, 50,
                            cudaMemcpyDefault, streams_[0]),
            0);
  window->Pop();
  ASSERT_EQ(cudaDeviceSynchronize(), 0);
  const WorkTotals totals = MustJoin(window.get()).by_id.at(9);
  const auto copies = [&](CopyDirection direction) {
    return totals.copies[static_cast<size_t>(direction)];
  };
  // Bytes at 25, 20 and 1000 a nanosecond, after two microseconds.
  EXPECT_EQ(copies(CopyDirection::kToDevice), (WorkSum{1, 2040, Bytes{1000}}));
  EXPECT_EQ(copies(CopyDirection::kToHost), (WorkSum{1, 2015, Bytes{300}}));
  EXPECT_EQ(copies(CopyDirection::kOnDevice), (WorkSum{1, 2000, Bytes{50}}));
  EXPECT_EQ(totals.sets, (WorkSum{1, 2000, Bytes{70}}));
}

TEST_F(CuptiRuntimeTest, AGraphsKernelsBelongToItsLaunch) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  const auto window = MustBegin();
  window->Push(1);
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal),
            0);
  Start(0, 0, streams_[0]);
  Start(0, 0, streams_[0]);
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), 0);
  window->Pop();
  ASSERT_EQ(cudaGraphInstantiate(&launchable, graph, 0), 0);
  window->Push(2);
  ASSERT_EQ(cudaGraphLaunch(launchable, streams_[1]), 0);
  window->Pop();
  ASSERT_EQ(cudaDeviceSynchronize(), 0);
  const WorkProfile profile = MustJoin(window.get());
  EXPECT_EQ(profile.by_id.count(1), 0);
  EXPECT_EQ(profile.by_id.at(2).kernels, (WorkSum{2, 10'000, Bytes{0}}));
  EXPECT_EQ(cudaGraphExecDestroy(launchable), 0);
  EXPECT_EQ(cudaGraphDestroy(graph), 0);
}

// The device must have been waited for.
TEST_F(CuptiRuntimeTest, WhatStillRunsAtTheEndIsRefused) {
  const auto window = MustBegin();
  Start(0, 0, streams_[0]);
  const auto records = window->End();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(JoinWork(*records).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(cudaDeviceSynchronize(), 0);
}

}  // namespace
}  // namespace ebbtide
