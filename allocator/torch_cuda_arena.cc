#include "allocator/torch_cuda_arena.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "allocator/cuda_api.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;

std::atomic<ArenaCudaAllocator*> the_one = nullptr;

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
        if (entry.action_ !=
            c10::CachingDeviceAllocator::TraceEntry::FREE_REQUESTED) {
          return;
        }
        DeviceArena* const arena = ArenaOf(entry.device_);
        if (arena == nullptr) return;
        arena->OnNativeFree(reinterpret_cast<const void*>(entry.addr_));
      });
}

DeviceArena* ArenaCudaAllocator::MakeArena(DeviceIndex device) {
  const auto api = CudaApi::Loaded();
  if (!api.ok() || !attached_) return nullptr;
  arenas_[device] = new DeviceArena(
      &inner(), device, *api, &pools_, &history_,
      [this](const auto& entry) {
        for (const auto& tracker : *trackers_.load()) tracker(entry);
      },
      name_op_);
  count_ = std::max<int>(count_, device + 1);
  return arenas_[device];
}

void ArenaCudaAllocator::BeginStep(DeviceIndex device, bool is_wanted) {
  DeviceArena* arena = ArenaOf(device);
  if (arena == nullptr && is_wanted) arena = MakeArena(device);
  if (arena != nullptr) arena->BeginStep(is_wanted);
}

std::optional<StepArena::Facts> ArenaCudaAllocator::FactsOf(
    DeviceIndex device) const {
  const DeviceArena* const arena = ArenaOf(device);
  if (arena == nullptr) return std::nullopt;
  return arena->facts();
}

bool ArenaCudaAllocator::GiveUpIdle(DeviceIndex device, Bytes needed) {
  DeviceArena* const arena = ArenaOf(device);
  return arena != nullptr && !BooksOf(device).ledger().WouldExceed(needed) &&
         arena->GiveUpIdle();
}

DeviceArena* ArenaCudaAllocator::ArenaOf(const void* block) const {
  const int count = count_;
  for (int device = 0; device < count; ++device) {
    DeviceArena* const arena = ArenaOf(static_cast<DeviceIndex>(device));
    if (arena != nullptr && arena->Owns(block)) return arena;
  }
  return nullptr;
}

// From where it is to come from first; nullptr: from the native allocator.
void* ArenaCudaAllocator::Serve(DeviceArena* arena, size_t size,
                                c10::cuda::CUDAStream stream, bool is_again) {
  if (!arena->HasMemory() || pools_ > 0) return nullptr;
  if (!is_again) {
    void* const planned = arena->Allocate(size, stream);
    if (planned != nullptr) return planned;
  }
  // What stays there would be in the way of the plan.
  CacheRequest request = CacheRequestFor(size, stream.stream());
  request.may_use_arena = false;
  if (BooksOf(stream.device_index()).FindsRoom(request)) return nullptr;
  return arena->AllocateAnywhere(size, stream);
}

c10::DataPtr ArenaCudaAllocator::allocate(size_t size) {
  return Allocate(size, size, /*is_again=*/false);
}

c10::DataPtr ArenaCudaAllocator::AllocateAgain(size_t size, size_t asked) {
  return Allocate(size, asked, /*is_again=*/true);
}

c10::DataPtr ArenaCudaAllocator::Allocate(size_t size, size_t asked,
                                          bool is_again) {
  if (count_ == 0) return inner().allocate(asked);
  const DeviceIndex device = c10::cuda::current_device();
  DeviceArena* const arena = ArenaOf(device);
  if (arena == nullptr || size == 0) return inner().allocate(asked);
  const auto stream = c10::cuda::getCurrentCUDAStream(device);
  if (void* const block = Serve(arena, size, stream, is_again)) {
    TellProfilers(block, Count(RoundUp(size)), device, this);
    const c10::impl::PyInterpreter* const tracer =
        c10::impl::GPUTrace::get_trace();
    if (tracer != nullptr) {
      (*tracer)->trace_gpu_memory_allocation(
          c10::DeviceType::CUDA, reinterpret_cast<uintptr_t>(block));
    }
    return {block, block, &Delete, c10::Device(c10::DeviceType::CUDA, device)};
  }
  c10::DataPtr data = inner().allocate(asked);
  // What goes to a private pool is not of the step.
  if (pools_ == 0) arena->OnNative(data.get(), size, stream);
  arena->OnNativeChange();
  return data;
}

void* ArenaCudaAllocator::raw_alloc(size_t size) {
  void* const block = inner().raw_alloc(size);
  NoteRaw();
  return block;
}

void* ArenaCudaAllocator::raw_alloc_with_stream(size_t size,
                                                cudaStream_t stream) {
  void* const block = inner().raw_alloc_with_stream(size, stream);
  NoteRaw();
  return block;
}

void ArenaCudaAllocator::NoteRaw() {
  if (count_ == 0) return;
  DeviceArena* const arena = ArenaOf(c10::cuda::current_device());
  if (arena != nullptr) arena->OnNativeChange();
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

void* ArenaCudaAllocator::getBaseAllocation(void* block, size_t* size) {
  DeviceArena* const arena = ArenaOf(block);
  return inner().getBaseAllocation(
      arena == nullptr ? block : arena->BaseOf(block), size);
}

void ArenaCudaAllocator::attachAllocatorTraceTracker(
    native::AllocatorTraceTracker tracker) {
  inner().attachAllocatorTraceTracker([tracker](const auto& entry) {
    if (!DeviceArena::IsOfMemory(entry)) tracker(entry);
  });
  std::shared_ptr<const Trackers> before = trackers_;
  std::shared_ptr<const Trackers> after;
  do {
    auto more = std::make_shared<Trackers>(*before);
    more->push_back(tracker);
    after = std::move(more);
  } while (!trackers_.compare_exchange_weak(before, after));
}

native::ShareableHandle ArenaCudaAllocator::shareIpcHandle(void* block) {
  DeviceArena* const arena = ArenaOf(block);
  if (arena == nullptr) return inner().shareIpcHandle(block);
  char* const base = arena->BaseOf(block);
  native::ShareableHandle handle = inner().shareIpcHandle(base);
  handle.offset += static_cast<char*>(block) - base;
  return handle;
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
  return arena == nullptr ? stats : arena->Joined(stats);
}

void ArenaCudaAllocator::resetAccumulatedStats(DeviceIndex device) {
  inner().resetAccumulatedStats(device);
  if (DeviceArena* const arena = ArenaOf(device)) arena->ResetAccumulated();
}

void ArenaCudaAllocator::resetPeakStats(DeviceIndex device) {
  inner().resetPeakStats(device);
  if (DeviceArena* const arena = ArenaOf(device)) arena->ResetPeaks();
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
  for (auto& segment : info.segments) {
    DeviceArena* const arena = ArenaOf(segment.device);
    if (arena != nullptr) arena->Fill(&segment);
  }
  for (size_t i = 0; include_traces && i < info.device_traces.size(); ++i) {
    const auto device = static_cast<DeviceIndex>(i);
    DeviceArena* const arena = ArenaOf(device);
    if (arena == nullptr) continue;
    auto& trace = info.device_traces[i];
    std::erase_if(trace,
                  [&](const auto& entry) { return arena->IsOwn(entry); });
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
