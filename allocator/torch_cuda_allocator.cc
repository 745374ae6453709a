#include "allocator/torch_cuda_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "allocator/allocation_kind.h"
#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_arena.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_budget.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;
using c10::CachingDeviceAllocator::DeviceStats;

// The request that this thread is making, for what runs inside it.
struct Request {
  DeviceIndex device = -1;  // none
  size_t size = 0;
};
thread_local Request request;
thread_local bool in_handler = false;

// Set before ours is in place, and never changed.
CudaAllocator::Policy policy;

// The handler may allocate, and must not be called from within itself.
bool Relieve(DeviceIndex device, Bytes needed, bool is_locked) {
  if (policy.relieve == nullptr || in_handler) return false;
  in_handler = true;
  const bool relieved = policy.relieve(device, needed, is_locked);
  in_handler = false;
  return relieved;
}

// In the order of this thread's stream.
void Fill(void* block, size_t size) {
  const auto api = CudaApi::Loaded();
  if (!api.ok()) return;
  const absl::Status filled = CudaStatus(
      **api,
      (*api)->memset_async(block, AllocationFill::Current(), size,
                           c10::cuda::getCurrentCUDAStream().stream()),
      "cudaMemsetAsync");
  TORCH_CHECK(filled.ok(), "ebbtide: ", std::string(filled.message()));
}

// Replaces the size before `words`, as "1.50 GiB", where they are there.
void ReplaceSize(const char* words, Bytes size, std::string* text) {
  const size_t end = text->find(words);
  if (end == std::string::npos) return;
  const size_t unit = text->rfind(' ', end - 1);
  if (unit == std::string::npos || unit == 0) return;
  const size_t begin = text->rfind(' ', unit - 1) + 1;
  text->replace(begin, end - begin,
                c10::CachingDeviceAllocator::format_size(
                    static_cast<uint64_t>(Count(size))));
}

// The native text of an OutOfMemoryError with the numbers of the whole device:
// the native allocator has only its own, and not those of an arena.
std::string WithNumbers(std::string text, const DeviceStats& stats,
                        Bytes limit) {
  const int64_t allocated = stats.allocated_bytes[0].current;
  ReplaceSize(" allowed;", limit, &text);
  ReplaceSize(" is allocated by PyTorch", Bytes{allocated}, &text);
  ReplaceSize(" is reserved by PyTorch but unallocated",
              Bytes{stats.reserved_bytes[0].current - allocated}, &text);
  return text;
}

std::atomic<void (*)(void* block)> free_observer = nullptr;
void DeleteObserved(void* block);

class BudgetedCudaAllocator final : public ArenaCudaAllocator {
 public:
  BudgetedCudaAllocator(native::CUDAAllocator* inner, StepArena::NameOp name_op)
      : ArenaCudaAllocator(inner, name_op),
        sees_blocks_(inner->name() == "native") {
    if (!inner->initialized() || !sees_blocks_) return;
    const auto snapshot = inner->snapshot({0, 0}, /*include_traces=*/false);
    for (const auto& segment : snapshot.segments) NoteBefore(segment);
  }

  bool sees_blocks() const { return sees_blocks_; }

  c10::DataPtr allocate(size_t size) override {
    const DeviceIndex device = SettledDevice();
    c10::DataPtr data;
    if (DeviceArena* const arena = ArenaFor(device, size)) {
      data = AllocateInArena(arena, size);
    }
    if (!data) {
      data = WithRoom(device, size, [&] { return inner().allocate(size); });
    }
    if (AllocationFill::Current() >= 0 && size > 0) Fill(data.get(), size);
    return data;
  }
  void* raw_alloc(size_t size) override {
    const DeviceIndex device = SettledDevice();
    return WithRoom(device, size, [&] { return inner().raw_alloc(size); });
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    const DeviceIndex device = SettledDevice();
    return WithRoom(device, size, [&] {
      return inner().raw_alloc_with_stream(size, stream);
    });
  }

  // Before the native allocator reserves a segment for the request of this
  // thread. True if a cached block may have become free.
  bool OnSegment() {
    CudaBudget& state = CudaBudgets()[request.device];
    const Bytes segment = SegmentFor(request.size);
    DeviceArena* const arena = ArenaOf(request.device);
    bool relieved = false;
    for (;;) {
      const Bytes over = BooksOf(request.device).reserved() + segment -
                         LimitOf(request.device, state.total);
      if (over <= Bytes{0}) break;
      if (arena != nullptr &&
          arena->GiveBack(over, /*of_plan=*/true) > Bytes{0}) {
        continue;
      }
      // Segments that are empty the native allocator gives back by itself.
      if (arena == nullptr &&
          !BooksOf(request.device).ledger().WouldExceed(segment)) {
        break;
      }
      if (!Relieve(request.device, RoundUp(request.size), /*is_locked=*/true)) {
        break;
      }
      relieved = true;
    }
    SetNativeFraction(request.device, this);
    return relieved;
  }

  // The native one leaves alone what has another deleter than its own.
  using ArenaCudaAllocator::recordStream;
  void recordStream(const c10::DataPtr& data,
                    c10::cuda::CUDAStream stream) override {
    if (data.get_deleter() != &DeleteObserved) {
      return ArenaCudaAllocator::recordStream(data, stream);
    }
    KeepFor(data.get(), stream);
  }

  // As recordStream, of a block of whatever deleter.
  void KeepFor(void* block, c10::cuda::CUDAStream stream) {
    c10::DataPtr native(block, block, raw_deleter(), stream.device());
    ArenaCudaAllocator::recordStream(native, stream);
    native.release_context();
  }

  // The program's own value; its mistakes are reported by the native one.
  double getMemoryFraction(DeviceIndex device) override {
    inner().getMemoryFraction(device);
    return CudaBudgets()[device].user_fraction;
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    inner().setMemoryFraction(fraction, device);
    CudaBudget& state = CudaBudgets()[device];
    state.user_fraction = inner().getMemoryFraction(device);
    state.has_fraction = true;
    state.is_settled = false;
  }

 private:
  // This thread's, with its budget carried out.
  DeviceIndex SettledDevice() {
    const DeviceIndex device = c10::cuda::current_device();
    if (!CudaBudgets()[device].is_settled) {
      CarryOutBudget(device, policy, this);
    }
    return device;
  }

  // Null where the request has to fail, or the stream is not PyTorch's.
  c10::DataPtr AllocateInArena(DeviceArena* arena, size_t size) {
    const DeviceIndex device = arena->device();
    const Bytes rounded = RoundUp(size);
    for (;;) {
      c10::DataPtr data = Allocate(arena, size, /*is_last=*/false);
      if (data || !arena->Serves(c10::cuda::getCurrentCUDAStream(device))) {
        return data;
      }
      if (GiveBackNative(device, this)) continue;
      if (!Relieve(device, rounded, /*is_locked=*/false)) break;
    }
    return Allocate(arena, size, /*is_last=*/true);
  }

  // `take` asks the native allocator, which throws where it fails.
  template <typename Take>
  auto WithRoom(DeviceIndex device, size_t size, Take take)
      -> decltype(take()) {
    const CudaBudget& state = CudaBudgets()[device];
    if (state.budget == Count(kNoBudget) || size == 0) return take();
    const Request outer = std::exchange(request, {device, size});
    const absl::Cleanup restore = [&outer] { request = outer; };
    const Bytes rounded = RoundUp(size);
    while (WouldExceed(device, state, rounded) &&
           Relieve(device, rounded, /*is_locked=*/false)) {
    }
    for (;;) {
      try {
        return take();
      } catch (const c10::OutOfMemoryError& error) {
        if (Relieve(device, rounded, /*is_locked=*/false)) continue;
        ThrowWithReport(error, device, rounded);
      }
    }
  }

  bool WouldExceed(DeviceIndex device, const CudaBudget& state, Bytes size) {
    if (sees_blocks_) return BooksOf(device).ledger().WouldExceed(size);
    const auto live = inner().getDeviceStats(device).allocated_bytes[0];
    return Bytes{live.current} + size > Bytes{state.budget.load()};
  }

  // In a catch clause.
  [[noreturn]] void ThrowWithReport(const c10::OutOfMemoryError& error,
                                    DeviceIndex device, Bytes wanted) {
    std::string report;
    if (policy.explain != nullptr) report = policy.explain(device, wanted);
    std::string text = error.msg();
    if (ArenaOf(device) != nullptr) {
      text = WithNumbers(text, getDeviceStats(device),
                         LimitOf(device, CudaBudgets()[device].total));
    }
    if (report.empty() && text == error.msg()) throw;
    throw c10::OutOfMemoryError(
        report.empty() ? text : absl::StrCat(text, "\n", report),
        error.backtrace());
  }

  const bool sees_blocks_;
};

std::atomic<BudgetedCudaAllocator*> ours = nullptr;

// Asked by the native allocator, under its lock, where nothing cached fits: it
// is about to reserve a segment.
class OnMiss final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    return request.device >= 0 && ours.load()->OnSegment();
  }
};

// Deleter of a block that is not observed.
c10::DeleterFnPtr DeleterOf(const void* block) {
  return ours.load()->Owns(block) ? &ArenaCudaAllocator::Delete
                                  : ours.load()->raw_deleter();
}

void DeleteObserved(void* block) {
  free_observer.load()(block);
  // The observer may have queued work that reads the block.
  ours.load()->KeepFor(block, c10::cuda::getCurrentCUDAStream());
  DeleterOf(block)(block);
}

}  // namespace

absl::Status CudaAllocator::Install(const Policy& chosen) {
  native::CUDAAllocator* const inner = native::get();
  if (ours != nullptr) {
    return absl::FailedPreconditionError("it has been replaced before");
  }
  if (inner->name() != "native" && inner->name() != "cudaMallocAsync") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the CUDA allocator is \"", inner->name(), "\", not PyTorch's own"));
  }
  policy = chosen;
  c10::FreeCudaMemoryCallbacksRegistry()->Register("ebbtide", [] {
    return std::unique_ptr<c10::FreeMemoryCallback>(new OnMiss);
  });
  ours = new BudgetedCudaAllocator(inner, chosen.name_op);
  native::allocator.store(ours);
  // Tensors use the registered one, all other callers the pointer.
  c10::SetAllocator(c10::DeviceType::CUDA, ours, /*priority=*/255);
  return absl::OkStatus();
}

DeviceArena* CudaAllocator::ArenaOf(DeviceIndex device) {
  return ours == nullptr ? nullptr : ours.load()->ArenaOf(device);
}

DeviceArena* CudaAllocator::ArenaOf(const void* block) {
  return ours == nullptr ? nullptr : ours.load()->ArenaOf(block);
}

bool CudaAllocator::IsInPlace() {
  return ours != nullptr && native::get() == ours;
}

bool CudaAllocator::SeesBlocks() {
  return ours != nullptr && ours.load()->sees_blocks();
}

std::vector<DeviceIndex> CudaAllocator::UsedDevices() {
  std::vector<DeviceIndex> used;
  for (int device = 0; device < kMaxCudaDevices; ++device) {
    if (CudaBudgets()[device].is_used) used.push_back(device);
  }
  return used;
}

void CudaAllocator::SetBudget(DeviceIndex device, Bytes budget) {
  CudaBudget& state = CudaBudgets()[device];
  state.has_been_asked_for = true;
  SetCudaBudget(device, budget);
  state.is_settled = false;
}

Bytes CudaAllocator::BudgetOf(DeviceIndex device) {
  return Bytes{CudaBudgets()[device].budget.load()};
}

bool CudaAllocator::IsNative(const c10::DataPtr& data) {
  const c10::DeleterFnPtr deleter = data.get_deleter();
  return ours != nullptr &&
         (deleter == DeleterOf(data.get()) || deleter == &DeleteObserved);
}

void CudaAllocator::SetFreeObserver(void (*observer)(void* block)) {
  free_observer = observer;
}

void CudaAllocator::ObserveFree(c10::DataPtr* data) {
  // Where it is not the native one's, nothing changes.
  static_cast<void>(
      data->compare_exchange_deleter(DeleterOf(data->get()), &DeleteObserved));
}

bool CudaAllocator::HasOpenPool() {
  return ours != nullptr && ours.load()->HasOpenPool();
}

bool CudaAllocator::FindsRoom(DeviceIndex device, Bytes size) {
  const auto bytes = static_cast<size_t>(Count(size));
  DeviceArena* const arena =
      ours == nullptr ? nullptr : ours.load()->ArenaFor(device, bytes);
  if (arena == nullptr) {
    return !BooksOf(device).ledger().WouldExceed(RoundUp(bytes));
  }
  return arena->FindsRoom(bytes, c10::cuda::getCurrentCUDAStream(device));
}

}  // namespace ebbtide
