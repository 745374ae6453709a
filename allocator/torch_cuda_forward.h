// A CUDA allocator that hands every call to another one. Classes that change
// some calls derive from it.
//
// Every virtual of the installed torch's allocator is here: the build asks
// cmake/check_overrides.py, because one that is forgotten would silently get
// the base class's default, which throws or does nothing.
#ifndef EBBTIDE_ALLOCATOR_TORCH_CUDA_FORWARD_H_
#define EBBTIDE_ALLOCATOR_TORCH_CUDA_FORWARD_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ebbtide {

namespace native = c10::cuda::CUDACachingAllocator;

class ForwardingCudaAllocator : public native::CUDAAllocator {
 public:
  // `inner` must outlive it, and the blocks stay `inner`'s.
  explicit ForwardingCudaAllocator(native::CUDAAllocator* inner)
      : inner_(*inner) {}

  native::CUDAAllocator& inner() { return inner_; }

  // c10::Allocator.
  c10::DataPtr allocate(size_t size) override { return inner_.allocate(size); }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return inner_.is_simple_data_ptr(data);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return inner_.raw_deleter();
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    inner_.copy_data(to, from, count);
  }

  // c10::DeviceAllocator.
  bool initialized() override { return inner_.initialized(); }
  void emptyCache(c10::MempoolId_t pool) override { inner_.emptyCache(pool); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override {
    return inner_.getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    inner_.resetAccumulatedStats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    inner_.resetPeakStats(device);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return inner_.getMemoryInfo(device);
  }

  // Raw blocks.
  void* raw_alloc(size_t size) override { return inner_.raw_alloc(size); }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return inner_.raw_alloc_with_stream(size, stream);
  }
  void raw_delete(void* block) override { inner_.raw_delete(block); }
  void* getBaseAllocation(void* block, size_t* size) override {
    return inner_.getBaseAllocation(block, size);
  }
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& data,
                    c10::cuda::CUDAStream stream) override {
    inner_.recordStream(data, stream);
  }

  // Settings and statistics.
  void init(int devices) override { inner_.init(devices); }
  void enable(bool value) override { inner_.enable(value); }
  bool isEnabled() const override { return inner_.isEnabled(); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return inner_.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    inner_.setMemoryFraction(fraction, device);
  }
  std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return inner_.getExpandableSegmentSizes(device);
  }
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override {
    inner_.cacheInfo(device, largest);
  }
  std::string name() override { return inner_.name(); }

  // Pools and graphs.
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    inner_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device,
                         c10::MempoolId_t pool) override {
    inner_.endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    inner_.releasePool(device, pool);
  }
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return inner_.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(
      c10::DeviceIndex device, c10::MempoolId_t pool,
      std::shared_ptr<native::CUDAAllocator> allocator) override {
    inner_.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool,
                   bool use) override {
    inner_.setUseOnOOM(device, pool, use);
  }
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    inner_.setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(
      c10::DeviceIndex device, c10::MempoolId_t pool,
      const std::unordered_set<void*>& expected) override {
    return inner_.checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<native::AllocatorState> getCheckpointState(
      c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return inner_.getCheckpointState(device, pool);
  }
  native::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device,
      std::shared_ptr<native::AllocatorState> state) override {
    return inner_.setCheckpointPoolState(device, std::move(state));
  }

  // Other processes and devices.
  native::ShareableHandle shareIpcHandle(void* block) override {
    return inner_.shareIpcHandle(block);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return inner_.getIpcDevPtr(std::move(handle));
  }
  void enablePeerAccess(c10::DeviceIndex from, c10::DeviceIndex to) override {
    inner_.enablePeerAccess(from, to);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from,
                          int from_device, size_t count, cudaStream_t stream,
                          bool peers) override {
    return inner_.memcpyAsync(to, to_device, from, from_device, count, stream,
                              peers);
  }

  // History and observers.
  native::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                bool include_traces) override {
    return inner_.snapshot(pool, include_traces);
  }
  bool isHistoryEnabled() override { return inner_.isHistoryEnabled(); }
  void recordHistory(bool enabled, native::CreateContextFn recorder,
                     size_t max_entries, native::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    inner_.recordHistory(enabled, recorder, max_entries, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>&
                            annotation) override {
    inner_.recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override {
    inner_.pushCompileContext(context);
  }
  void popCompileContext() override { inner_.popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override {
    inner_.setUserMetadata(metadata);
  }
  std::string getUserMetadata() override { return inner_.getUserMetadata(); }
  void attachOutOfMemoryObserver(
      native::OutOfMemoryObserver observer) override {
    inner_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(
      native::AllocatorTraceTracker tracker) override {
    inner_.attachAllocatorTraceTracker(std::move(tracker));
  }

#if TORCH_VERSION_MINOR >= 12
  std::shared_ptr<c10::GatheredContext> getContextForPointer(
      const void* block) override {
    return inner_.getContextForPointer(block);
  }
  void attachOomRejectionObserver(
      native::OomRejectionObserver observer) override {
    inner_.attachOomRejectionObserver(std::move(observer));
  }
#endif

#if TORCH_VERSION_MINOR >= 13
  c10::DataPtr allocateWithAddress(size_t size, void* address) override {
    return inner_.allocateWithAddress(size, address);
  }
  void markCaptureBegin(c10::DeviceIndex device) override {
    inner_.markCaptureBegin(device);
  }
  void markCaptureEnd(c10::DeviceIndex device) override {
    inner_.markCaptureEnd(device);
  }
#endif

#if TORCH_VERSION_MINOR >= 14
  bool supportsUserMetadata() override { return inner_.supportsUserMetadata(); }
  void annotateMemory(const void* block, const std::string& what) override {
    inner_.annotateMemory(block, what);
  }
#endif

 private:
  native::CUDAAllocator& inner_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_ALLOCATOR_TORCH_CUDA_FORWARD_H_
