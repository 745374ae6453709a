#include "allocator/torch_cuda_arena.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_books.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;

std::atomic<ArenaCudaAllocator*> the_one = nullptr;

constexpr char kNotShared[] =
    "ebbtide: a CUDA tensor cannot be shared with another "
    "process under a budget, because its memory is mapped in pages; share a "
    "copy on the CPU, or run this process without a budget";

// As the native allocator does, for profilers and PyTorch's sanitizer.
void TellProfilers(void* block, int64_t change, DeviceIndex device,
                   ArenaCudaAllocator* allocator) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto stats = allocator->getDeviceStats(device);
  c10::reportMemoryUsageToProfiler(block, change,
                                   stats.allocated_bytes[0].current,
                                   stats.reserved_bytes[0].current,
                                   c10::Device(c10::DeviceType::CUDA, device));
}

}  // namespace

ArenaCudaAllocator::ArenaCudaAllocator(native::CUDAAllocator* inner,
                                       StepArena::NameOp name_op)
    : ForwardingCudaAllocator(inner), name_op_(name_op) {
  the_one = this;
  if (inner->initialized()) Attach();
}

void ArenaCudaAllocator::init(int devices) {
  inner().init(devices);
  Attach();
}

void ArenaCudaAllocator::Attach() {
  if (inner().name() != "native" || attached_.exchange(true)) return;
  inner().attachAllocatorTraceTracker(
      [this](const c10::CachingDeviceAllocator::TraceEntry& entry) {
        Note(entry.device_, entry.action_,
             reinterpret_cast<const void*>(entry.addr_), entry.size_,
             entry.mempool_);
        DeviceArena* const arena = ArenaOf(entry.device_);
        if (arena == nullptr) return;
        arena->stats().OnTrace(entry.action_, entry.size_,
                               /*is_of_arena=*/false);
      });
}

absl::Status ArenaCudaAllocator::MakeArena(DeviceIndex device, Bytes total,
                                           Bytes memory) {
  if (ArenaOf(device) != nullptr) return absl::OkStatus();
  if (!attached_) return absl::FailedPreconditionError("no trace is seen");
  const auto api = CudaApi::Loaded();
  if (!api.ok()) return api.status();
  const auto driver = CudaDriver::Loaded();
  if (!driver.ok()) return driver.status();
  auto arena = DeviceArena::Make({.native = &inner(),
                                  .device = device,
                                  .api = *api,
                                  .driver = *driver,
                                  .pools = &pools_,
                                  .history = &history_,
                                  .trackers = &trackers_,
                                  .name_op = name_op_,
                                  .total = total,
                                  .memory = memory});
  if (!arena.ok()) return arena.status();
  arenas_[device] = arena->release();
  count_ = std::max<DeviceIndex>(count_, device + 1);
  return absl::OkStatus();
}

DeviceArena* ArenaCudaAllocator::ArenaFor(DeviceIndex device,
                                          size_t size) const {
  if (size == 0 || HasOpenPool()) return nullptr;
  DeviceArena* const arena = ArenaOf(device);
  return arena != nullptr && arena->MayHold(size) ? arena : nullptr;
}

DeviceArena* ArenaCudaAllocator::ArenaOf(const void* block) const {
  const DeviceIndex count = count_;
  for (DeviceIndex device = 0; device < count; ++device) {
    DeviceArena* const arena = ArenaOf(device);
    if (arena != nullptr && arena->Owns(block)) return arena;
  }
  return nullptr;
}

c10::DataPtr ArenaCudaAllocator::Allocate(DeviceArena* arena, size_t size,
                                          bool is_last) {
  const DeviceIndex device = arena->device();
  void* const block =
      arena->Allocate(size, c10::cuda::getCurrentCUDAStream(device), is_last);
  if (block == nullptr) return {};
  TellProfilers(block, Count(RoundUp(size)), device, this);
  const c10::impl::PyInterpreter* const tracer =
      c10::impl::GPUTrace::get_trace();
  if (tracer != nullptr) {
    (*tracer)->trace_gpu_memory_allocation(c10::DeviceType::CUDA,
                                           reinterpret_cast<uintptr_t>(block));
  }
  return {block, block, &Delete, c10::Device(c10::DeviceType::CUDA, device)};
}

void ArenaCudaAllocator::Delete(void* block) {
  the_one.load()->raw_delete(block);
}

void ArenaCudaAllocator::raw_delete(void* block) {
  DeviceArena* const arena = ArenaOf(block);
  if (arena == nullptr) return inner().raw_delete(block);
  const c10::impl::PyInterpreter* const tracer =
      c10::impl::GPUTrace::get_trace();
  if (tracer != nullptr) {
    (*tracer)->trace_gpu_memory_deallocation(
        c10::DeviceType::CUDA, reinterpret_cast<uintptr_t>(block));
  }
  const Bytes size = arena->Free(block);
  TellProfilers(block, -Count(size), arena->device(), this);
}

void ArenaCudaAllocator::emptyCache(c10::MempoolId_t pool) {
  inner().emptyCache(pool);
  for (DeviceIndex device = 0; device < count_; ++device) {
    DeviceArena* const arena = ArenaOf(device);
    if (arena != nullptr) arena->GiveBackFree(/*of_plan=*/true);
  }
}

// Pages have no handle of cudaIpcGetMemHandle.
void* ArenaCudaAllocator::getBaseAllocation(void* block, size_t* size) {
  TORCH_CHECK(!Owns(block), kNotShared);
  return inner().getBaseAllocation(block, size);
}

void ArenaCudaAllocator::attachAllocatorTraceTracker(
    native::AllocatorTraceTracker tracker) {
  inner().attachAllocatorTraceTracker(tracker);
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const DeviceArena::Trackers* const before = trackers_;
  auto* const more =
      new DeviceArena::Trackers;  // some thread may be in the old
  if (before != nullptr) *more = *before;
  more->push_back(tracker);
  trackers_ = more;
}

native::ShareableHandle ArenaCudaAllocator::shareIpcHandle(void* block) {
  TORCH_CHECK(!Owns(block), kNotShared);
  return inner().shareIpcHandle(block);
}

void ArenaCudaAllocator::enablePeerAccess(DeviceIndex from, DeviceIndex to) {
  inner().enablePeerAccess(from, to);
  DeviceArena* const arena = ArenaOf(to);
  if (arena != nullptr) arena->AllowPeer(from);
}

// Without peer access only cudaMemcpyPeerAsync copies mapped memory.
cudaError_t ArenaCudaAllocator::memcpyAsync(void* to, int to_device,
                                            const void* from, int from_device,
                                            size_t count, cudaStream_t stream,
                                            bool peers) {
  if (!peers && to_device != from_device && (Owns(to) || Owns(from))) {
    const auto api = CudaApi::Loaded();
    if (api.ok()) {
      return (*api)->memcpy_peer_async(to, to_device, from, from_device, count,
                                       stream);
    }
  }
  return inner().memcpyAsync(to, to_device, from, from_device, count, stream,
                             peers);
}

void ArenaCudaAllocator::recordStream(const c10::DataPtr& data,
                                      c10::cuda::CUDAStream stream) {
  DeviceArena* const arena = ArenaOf(data.get());
  if (arena == nullptr) return inner().recordStream(data, stream);
  // The native one leaves alone what has another context than the block.
  if (data.get_context() == data.get()) arena->KeepFor(data.get(), stream);
}

c10::CachingDeviceAllocator::DeviceStats ArenaCudaAllocator::getDeviceStats(
    DeviceIndex device) {
  auto stats = inner().getDeviceStats(device);
  DeviceArena* const arena = ArenaOf(device);
  return arena == nullptr ? stats : arena->stats().Joined(stats);
}

void ArenaCudaAllocator::resetAccumulatedStats(DeviceIndex device) {
  inner().resetAccumulatedStats(device);
  if (DeviceArena* const arena = ArenaOf(device))
    arena->stats().ResetAccumulated();
}

void ArenaCudaAllocator::resetPeakStats(DeviceIndex device) {
  inner().resetPeakStats(device);
  if (DeviceArena* const arena = ArenaOf(device)) arena->stats().ResetPeaks();
}

void ArenaCudaAllocator::beginAllocateToPool(
    DeviceIndex device, c10::MempoolId_t pool,
    std::function<bool(cudaStream_t)> filter) {
  ++pools_;
  inner().beginAllocateToPool(device, pool, std::move(filter));
}

void ArenaCudaAllocator::endAllocateToPool(DeviceIndex device,
                                           c10::MempoolId_t pool) {
  inner().endAllocateToPool(device, pool);
  --pools_;
}

native::SnapshotInfo ArenaCudaAllocator::snapshot(c10::MempoolId_t pool,
                                                  bool include_traces) {
  native::SnapshotInfo info = inner().snapshot(pool, include_traces);
  const DeviceIndex count = pool == c10::MempoolId_t{0, 0} ? count_.load() : 0;
  for (DeviceIndex device = 0; device < count; ++device) {
    DeviceArena* const arena = ArenaOf(device);
    if (arena != nullptr) arena->AddSegments(&info.segments);
  }
  for (size_t i = 0; include_traces && i < info.device_traces.size(); ++i) {
    const auto device = static_cast<DeviceIndex>(i);
    if (ArenaOf(device) == nullptr) continue;
    auto& trace = info.device_traces[i];
    const auto ours = history_.Entries(device);
    trace.insert(trace.end(), ours.begin(), ours.end());
    std::stable_sort(
        trace.begin(), trace.end(),
        [](const auto& a, const auto& b) { return a.time_.t_ < b.time_.t_; });
  }
  return info;
}

void ArenaCudaAllocator::recordHistory(
    bool enabled, native::CreateContextFn recorder, size_t max_entries,
    native::RecordContext when, bool clear,
    const std::vector<std::string>& skipped) {
  inner().recordHistory(enabled, recorder, max_entries, when, clear, skipped);
  history_.Set({.is_enabled = enabled,
                .recorder = recorder,
                .max_entries = max_entries,
                .when = when,
                .clear = clear,
                .skipped = skipped});
}

#if TORCH_VERSION_MINOR >= 12
std::shared_ptr<c10::GatheredContext> ArenaCudaAllocator::getContextForPointer(
    const void* block) {
  DeviceArena* const arena = ArenaOf(block);
  return arena == nullptr ? inner().getContextForPointer(block)
                          : arena->ContextOf(block);
}
#endif

#if TORCH_VERSION_MINOR >= 14
void ArenaCudaAllocator::annotateMemory(const void* block,
                                        const std::string& what) {
  if (!Owns(block)) inner().annotateMemory(block, what);
}
#endif

}  // namespace ebbtide
