#include "allocator/torch_cuda_forward.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;
using c10::MempoolId_t;
using testing::Ref;
using testing::Return;
using testing::StrictMock;

constexpr DeviceIndex kDevice = 3;
constexpr MempoolId_t kPool = {5, 7};
void Delete(void*) {}

class MockAllocator : public native::CUDAAllocator {
 public:
  MOCK_METHOD(c10::DataPtr, allocate, (size_t), (override));
  MOCK_METHOD(bool, is_simple_data_ptr, (const c10::DataPtr&),
              (const, override));
  MOCK_METHOD(c10::DeleterFnPtr, raw_deleter, (), (const, override));
  MOCK_METHOD(void, copy_data, (void*, const void*, size_t), (const, override));
  MOCK_METHOD(bool, initialized, (), (override));
  MOCK_METHOD(void, emptyCache, (MempoolId_t), (override));
  MOCK_METHOD(c10::CachingDeviceAllocator::DeviceStats, getDeviceStats,
              (DeviceIndex), (override));
  MOCK_METHOD(void, resetAccumulatedStats, (DeviceIndex), (override));
  MOCK_METHOD(void, resetPeakStats, (DeviceIndex), (override));
  MOCK_METHOD((std::pair<size_t, size_t>), getMemoryInfo, (DeviceIndex),
              (override));
  MOCK_METHOD(void*, raw_alloc, (size_t), (override));
  MOCK_METHOD(void*, raw_alloc_with_stream, (size_t, cudaStream_t), (override));
  MOCK_METHOD(void, raw_delete, (void*), (override));
  MOCK_METHOD(void*, getBaseAllocation, (void*, size_t*), (override));
  MOCK_METHOD(void, recordStream, (const c10::DataPtr&, c10::cuda::CUDAStream),
              (override));
  MOCK_METHOD(void, init, (int), (override));
  MOCK_METHOD(void, enable, (bool), (override));
  MOCK_METHOD(bool, isEnabled, (), (const, override));
  MOCK_METHOD(double, getMemoryFraction, (DeviceIndex), (override));
  MOCK_METHOD(void, setMemoryFraction, (double, DeviceIndex), (override));
  MOCK_METHOD(std::vector<native::StreamSegmentSize>, getExpandableSegmentSizes,
              (DeviceIndex), (override));
  MOCK_METHOD(void, cacheInfo, (DeviceIndex, size_t*), (override));
  MOCK_METHOD(std::string, name, (), (override));
  MOCK_METHOD(void, beginAllocateToPool,
              (DeviceIndex, MempoolId_t, std::function<bool(cudaStream_t)>),
              (override));
  MOCK_METHOD(void, endAllocateToPool, (DeviceIndex, MempoolId_t), (override));
  MOCK_METHOD(void, releasePool, (DeviceIndex, MempoolId_t), (override));
  MOCK_METHOD(int, getPoolUseCount, (DeviceIndex, MempoolId_t), (override));
  MOCK_METHOD(void, createOrIncrefPool,
              (DeviceIndex, MempoolId_t,
               std::shared_ptr<native::CUDAAllocator>),
              (override));
  MOCK_METHOD(void, setUseOnOOM, (DeviceIndex, MempoolId_t, bool), (override));
  MOCK_METHOD(void, setNoSplit, (DeviceIndex, MempoolId_t), (override));
  MOCK_METHOD(bool, checkPoolLiveAllocations,
              (DeviceIndex, MempoolId_t, const std::unordered_set<void*>&),
              (override));
  MOCK_METHOD(std::shared_ptr<native::AllocatorState>, getCheckpointState,
              (DeviceIndex, MempoolId_t), (override));
  MOCK_METHOD(native::CheckpointDelta, setCheckpointPoolState,
              (DeviceIndex, std::shared_ptr<native::AllocatorState>),
              (override));
  MOCK_METHOD(native::ShareableHandle, shareIpcHandle, (void*), (override));
  MOCK_METHOD(std::shared_ptr<void>, getIpcDevPtr, (std::string), (override));
  MOCK_METHOD(void, enablePeerAccess, (DeviceIndex, DeviceIndex), (override));
  MOCK_METHOD(cudaError_t, memcpyAsync,
              (void*, int, const void*, int, size_t, cudaStream_t, bool),
              (override));
  MOCK_METHOD(native::SnapshotInfo, snapshot, (MempoolId_t, bool), (override));
  MOCK_METHOD(bool, isHistoryEnabled, (), (override));
  MOCK_METHOD(void, recordHistory,
              (bool, native::CreateContextFn, size_t, native::RecordContext,
               bool, const std::vector<std::string>&),
              (override));
  MOCK_METHOD(void, recordAnnotation,
              ((const std::vector<std::pair<std::string, std::string>>&)),
              (override));
  MOCK_METHOD(void, pushCompileContext, (std::string&), (override));
  MOCK_METHOD(void, popCompileContext, (), (override));
  MOCK_METHOD(void, setUserMetadata, (const std::string&), (override));
  MOCK_METHOD(std::string, getUserMetadata, (), (override));
  MOCK_METHOD(void, attachOutOfMemoryObserver, (native::OutOfMemoryObserver),
              (override));
  MOCK_METHOD(void, attachAllocatorTraceTracker,
              (native::AllocatorTraceTracker), (override));
#if TORCH_VERSION_MINOR >= 12
  MOCK_METHOD(std::shared_ptr<c10::GatheredContext>, getContextForPointer,
              (const void*), (override));
  MOCK_METHOD(void, attachOomRejectionObserver, (native::OomRejectionObserver),
              (override));
#endif
#if TORCH_VERSION_MINOR >= 13
  MOCK_METHOD(c10::DataPtr, allocateWithAddress, (size_t, void*), (override));
  MOCK_METHOD(void, markCaptureBegin, (DeviceIndex), (override));
  MOCK_METHOD(void, markCaptureEnd, (DeviceIndex), (override));
#endif
#if TORCH_VERSION_MINOR >= 14
  MOCK_METHOD(bool, supportsUserMetadata, (), (override));
  MOCK_METHOD(void, annotateMemory, (const void*, const std::string&),
              (override));
#endif
};

// A call that the mock does not expect fails, and so does one that is missing:
// what is forwarded reaches it with the same arguments, and the answer comes
// back.
class ForwardTest : public testing::Test {
 protected:
  StrictMock<MockAllocator> inner_;
  ForwardingCudaAllocator outer_{&inner_};
  char bytes_[2] = {};
  void* const block_ = &bytes_[0];
  void* const other_ = &bytes_[1];
  const cudaStream_t stream_ = reinterpret_cast<cudaStream_t>(bytes_);
};

TEST_F(ForwardTest, BlocksComeFromTheInnerAllocator) {
  const c10::Device device(c10::DeviceType::CUDA, kDevice);
  EXPECT_CALL(inner_, allocate(17)).WillOnce([&](size_t) {
    return c10::DataPtr(block_, block_, &Delete, device);
  });
  const c10::DataPtr data = outer_.allocate(17);
  EXPECT_EQ(data.get(), block_);
  EXPECT_EQ(data.get_deleter(), &Delete);
  EXPECT_CALL(inner_, is_simple_data_ptr(Ref(data))).WillOnce(Return(true));
  EXPECT_TRUE(outer_.is_simple_data_ptr(data));
  EXPECT_CALL(inner_, raw_deleter()).WillOnce(Return(&Delete));
  EXPECT_EQ(outer_.raw_deleter(), &Delete);
  EXPECT_CALL(inner_, copy_data(block_, other_, 1));
  outer_.copy_data(block_, other_, 1);
  EXPECT_CALL(inner_, raw_alloc(18)).WillOnce(Return(block_));
  EXPECT_EQ(outer_.raw_alloc(18), block_);
  EXPECT_CALL(inner_, raw_alloc_with_stream(19, stream_))
      .WillOnce(Return(block_));
  EXPECT_EQ(outer_.raw_alloc_with_stream(19, stream_), block_);
  EXPECT_CALL(inner_, raw_delete(block_));
  outer_.raw_delete(block_);
  size_t size = 0;
  EXPECT_CALL(inner_, getBaseAllocation(block_, &size))
      .WillOnce(Return(other_));
  EXPECT_EQ(outer_.getBaseAllocation(block_, &size), other_);
}

TEST_F(ForwardTest, StreamsOfBothTypesAreRecorded) {
  const c10::Device device(c10::DeviceType::CUDA, kDevice);
  const c10::DataPtr data(block_, device);
  const auto stream =
      c10::cuda::CUDAStream::unpack3(42, kDevice, c10::DeviceType::CUDA);
  EXPECT_CALL(inner_, recordStream(Ref(data), stream)).Times(2);
  outer_.recordStream(data, stream);
  outer_.recordStream(data, stream.unwrap());
}

TEST_F(ForwardTest, SettingsAreTheInnerOnes) {
  EXPECT_CALL(inner_, init(2));
  outer_.init(2);
  EXPECT_CALL(inner_, initialized()).WillOnce(Return(true));
  EXPECT_TRUE(outer_.initialized());
  EXPECT_CALL(inner_, enable(true));
  outer_.enable(true);
  EXPECT_CALL(inner_, isEnabled()).WillOnce(Return(true));
  EXPECT_TRUE(outer_.isEnabled());
  EXPECT_CALL(inner_, getMemoryFraction(kDevice)).WillOnce(Return(0.25));
  EXPECT_EQ(outer_.getMemoryFraction(kDevice), 0.25);
  EXPECT_CALL(inner_, setMemoryFraction(0.5, kDevice));
  outer_.setMemoryFraction(0.5, kDevice);
  EXPECT_CALL(inner_, emptyCache(kPool));
  outer_.emptyCache(kPool);
  size_t largest = 0;
  EXPECT_CALL(inner_, cacheInfo(kDevice, &largest));
  outer_.cacheInfo(kDevice, &largest);
  EXPECT_CALL(inner_, name()).WillOnce(Return("inner"));
  EXPECT_EQ(outer_.name(), "inner");
}

TEST_F(ForwardTest, StatisticsAreTheInnerOnes) {
  c10::CachingDeviceAllocator::DeviceStats stats;
  stats.num_ooms = 11;
  EXPECT_CALL(inner_, getDeviceStats(kDevice)).WillOnce(Return(stats));
  EXPECT_EQ(outer_.getDeviceStats(kDevice).num_ooms, 11);
  EXPECT_CALL(inner_, resetAccumulatedStats(kDevice));
  outer_.resetAccumulatedStats(kDevice);
  EXPECT_CALL(inner_, resetPeakStats(kDevice));
  outer_.resetPeakStats(kDevice);
  EXPECT_CALL(inner_, getMemoryInfo(kDevice))
      .WillOnce(Return(std::pair<size_t, size_t>(3, 4)));
  EXPECT_EQ(outer_.getMemoryInfo(kDevice).second, 4);
  EXPECT_CALL(inner_, getExpandableSegmentSizes(kDevice))
      .WillOnce(Return(std::vector<native::StreamSegmentSize>{
          {stream_, /*small=*/true, 9}}));
  EXPECT_EQ(outer_.getExpandableSegmentSizes(kDevice).at(0).total_size, 9);
}

TEST_F(ForwardTest, PoolsAreTheInnerOnes) {
  EXPECT_CALL(inner_, beginAllocateToPool(kDevice, kPool, testing::_))
      .WillOnce([&](DeviceIndex, MempoolId_t, auto filter) {
        EXPECT_TRUE(filter(stream_));
      });
  outer_.beginAllocateToPool(
      kDevice, kPool, [&](cudaStream_t stream) { return stream == stream_; });
  EXPECT_CALL(inner_, endAllocateToPool(kDevice, kPool));
  outer_.endAllocateToPool(kDevice, kPool);
  EXPECT_CALL(inner_, releasePool(kDevice, kPool));
  outer_.releasePool(kDevice, kPool);
  EXPECT_CALL(inner_, getPoolUseCount(kDevice, kPool)).WillOnce(Return(6));
  EXPECT_EQ(outer_.getPoolUseCount(kDevice, kPool), 6);
  const auto allocator = std::make_shared<StrictMock<MockAllocator>>();
  EXPECT_CALL(inner_, createOrIncrefPool(
                          kDevice, kPool,
                          std::shared_ptr<native::CUDAAllocator>(allocator)));
  outer_.createOrIncrefPool(kDevice, kPool, allocator);
  EXPECT_CALL(inner_, setUseOnOOM(kDevice, kPool, true));
  outer_.setUseOnOOM(kDevice, kPool, true);
  EXPECT_CALL(inner_, setNoSplit(kDevice, kPool));
  outer_.setNoSplit(kDevice, kPool);
  const std::unordered_set<void*> expected = {block_};
  EXPECT_CALL(inner_, checkPoolLiveAllocations(kDevice, kPool, Ref(expected)))
      .WillOnce(Return(true));
  EXPECT_TRUE(outer_.checkPoolLiveAllocations(kDevice, kPool, expected));
  const auto state = std::make_shared<native::AllocatorState>();
  EXPECT_CALL(inner_, getCheckpointState(kDevice, kPool))
      .WillOnce(Return(state));
  EXPECT_EQ(outer_.getCheckpointState(kDevice, kPool), state);
  EXPECT_CALL(inner_, setCheckpointPoolState(kDevice, state)).WillOnce([&] {
    native::CheckpointDelta delta;
    delta.ptrs_freed.push_back(block_);
    return delta;
  });
  EXPECT_EQ(outer_.setCheckpointPoolState(kDevice, state).ptrs_freed.at(0),
            block_);
}

TEST_F(ForwardTest, OtherProcessesAndDevicesAreTheInnerOnesBusiness) {
  EXPECT_CALL(inner_, shareIpcHandle(block_)).WillOnce([](void*) {
    return native::ShareableHandle{13, "handle"};
  });
  EXPECT_EQ(outer_.shareIpcHandle(block_).offset, 13);
  const auto shared = std::make_shared<int>();
  EXPECT_CALL(inner_, getIpcDevPtr("handle")).WillOnce(Return(shared));
  EXPECT_EQ(outer_.getIpcDevPtr("handle"), shared);
  EXPECT_CALL(inner_, enablePeerAccess(kDevice, 1));
  outer_.enablePeerAccess(kDevice, 1);
  EXPECT_CALL(inner_, memcpyAsync(block_, 1, other_, 2, 30, stream_, true))
      .WillOnce(Return(cudaErrorNotSupported));
  EXPECT_EQ(outer_.memcpyAsync(block_, 1, other_, 2, 30, stream_, true),
            cudaErrorNotSupported);
}

TEST_F(ForwardTest, HistoryIsTheInnerOne) {
  native::SnapshotInfo info;
  info.segments.emplace_back().total_size = 21;
  EXPECT_CALL(inner_, snapshot(kPool, false)).WillOnce(Return(info));
  EXPECT_EQ(outer_.snapshot(kPool, false).segments.at(0).total_size, 21);
  EXPECT_CALL(inner_, isHistoryEnabled()).WillOnce(Return(true));
  EXPECT_TRUE(outer_.isHistoryEnabled());
  const std::vector<std::string> skipped = {"alloc"};
  EXPECT_CALL(inner_,
              recordHistory(true, nullptr, 100, native::RecordContext::ALLOC,
                            true, Ref(skipped)));
  outer_.recordHistory(true, nullptr, 100, native::RecordContext::ALLOC, true,
                       skipped);
  const std::vector<std::pair<std::string, std::string>> annotation = {
      {"a", "b"}};
  EXPECT_CALL(inner_, recordAnnotation(Ref(annotation)));
  outer_.recordAnnotation(annotation);
  std::string context = "c";
  EXPECT_CALL(inner_, pushCompileContext(Ref(context)));
  outer_.pushCompileContext(context);
  EXPECT_CALL(inner_, popCompileContext());
  outer_.popCompileContext();
  EXPECT_CALL(inner_, setUserMetadata("m"));
  outer_.setUserMetadata("m");
  EXPECT_CALL(inner_, getUserMetadata()).WillOnce(Return("m"));
  EXPECT_EQ(outer_.getUserMetadata(), "m");
}

TEST_F(ForwardTest, ObserversAreTheInnerOnes) {
  int64_t told = 0;
  EXPECT_CALL(inner_, attachOutOfMemoryObserver(testing::_))
      .WillOnce([](native::OutOfMemoryObserver observer) {
        observer(kDevice, 1, 2, 3);
      });
  outer_.attachOutOfMemoryObserver(
      [&](int64_t device, size_t, size_t, size_t) { told = device; });
  EXPECT_EQ(told, kDevice);
  int traced = 0;
  EXPECT_CALL(inner_, attachAllocatorTraceTracker(testing::_))
      .WillOnce([](native::AllocatorTraceTracker tracker) {
        tracker({native::TraceEntry::ALLOC, kDevice, 1, 2, nullptr, kPool, 0});
      });
  outer_.attachAllocatorTraceTracker(
      [&](const native::TraceEntry& entry) { traced += entry.size_; });
  EXPECT_EQ(traced, 2);
}

#if TORCH_VERSION_MINOR >= 12
TEST_F(ForwardTest, WhatCameWith212IsTheInnerOne) {
  const auto context = std::make_shared<c10::GatheredContext>();
  EXPECT_CALL(inner_, getContextForPointer(block_)).WillOnce(Return(context));
  EXPECT_EQ(outer_.getContextForPointer(block_), context);
  int64_t told = 0;
  EXPECT_CALL(inner_, attachOomRejectionObserver(testing::_))
      .WillOnce([](native::OomRejectionObserver observer) {
        observer(kDevice, 1, 2, 3);
      });
  outer_.attachOomRejectionObserver(
      [&](int64_t device, size_t, size_t, size_t) { told = device; });
  EXPECT_EQ(told, kDevice);
}
#endif

#if TORCH_VERSION_MINOR >= 13
TEST_F(ForwardTest, WhatCameWith213IsTheInnerOne) {
  EXPECT_CALL(inner_, allocateWithAddress(3, block_))
      .WillOnce(Return(testing::ByMove(c10::DataPtr(block_, c10::kCPU))));
  EXPECT_EQ(outer_.allocateWithAddress(3, block_).get(), block_);
  EXPECT_CALL(inner_, markCaptureBegin(kDevice));
  outer_.markCaptureBegin(kDevice);
  EXPECT_CALL(inner_, markCaptureEnd(kDevice));
  outer_.markCaptureEnd(kDevice);
}
#endif

#if TORCH_VERSION_MINOR >= 14
TEST_F(ForwardTest, WhatCameWith214IsTheInnerOne) {
  EXPECT_CALL(inner_, supportsUserMetadata()).WillOnce(Return(true));
  EXPECT_TRUE(outer_.supportsUserMetadata());
  EXPECT_CALL(inner_, annotateMemory(block_, "m"));
  outer_.annotateMemory(block_, "m");
}
#endif

}  // namespace
}  // namespace ebbtide
