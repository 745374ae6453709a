#include "allocator/torch_cuda_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/allocation_kind.h"
#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;
using c10::CachingDeviceAllocator::TraceEntry;

constexpr int kMaxDevices = 64;  // C10_COMPILE_TIME_MAX_GPUS and some

// Sizes of the native allocator (c10/core/AllocatorConfig.h): what it rounds a
// request up to, and what it reserves for it where nothing cached fits.
constexpr size_t kRounding = 512;
constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddleRequest = size_t{10} << 20;
constexpr size_t kMiddleSegment = size_t{20} << 20;

Bytes RoundUp(size_t size, size_t to) {
  return Bytes{static_cast<int64_t>((size + to - 1) / to * to)};
}

Bytes SegmentFor(size_t size) {
  if (size <= kSmallRequest) return Bytes{int64_t{kSmallSegment}};
  if (size < kMiddleRequest) return Bytes{int64_t{kMiddleSegment}};
  return RoundUp(size, kSmallSegment);
}

struct DeviceState {
  DeviceBooks books;
  std::atomic<int64_t> budget = Count(kNoBudget);
  std::atomic<double> user_fraction = 1;
  // The native fraction is that of budget and user_fraction.
  std::atomic<bool> fraction_is_set = true;
};

std::array<DeviceState, kMaxDevices>& States() {
  static auto& states = *new std::array<DeviceState, kMaxDevices>;
  return states;
}

// The request that this thread is making, for what runs inside it.
struct Request {
  DeviceIndex device = -1;  // none
  size_t size = 0;
};
thread_local Request request;
thread_local bool in_handler = false;

class RequestScope {
 public:
  explicit RequestScope(Request inner)
      : outer_(std::exchange(request, inner)) {}
  ~RequestScope() { request = outer_; }
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

 private:
  const Request outer_;
};

std::atomic<CudaAllocator::PressureHandler> on_pressure = nullptr;

// What the handler does may allocate, and must not ask for itself again.
bool Relieve(DeviceIndex device, Bytes needed, bool is_locked) {
  const CudaAllocator::PressureHandler handler = on_pressure;
  if (handler == nullptr || in_handler) return false;
  in_handler = true;
  const bool relieved = handler(device, needed, is_locked);
  in_handler = false;
  return relieved;
}

// Runs under the native allocator's lock.
void Note(const TraceEntry& entry) {
  DeviceBooks& books = States()[entry.device_].books;
  const auto* address = reinterpret_cast<const void*>(entry.addr_);
  // Of blocks it tells what was asked for.
  const Bytes size = RoundUp(entry.size_, kRounding);
  const auto pool = entry.mempool_ == c10::MempoolId_t{0, 0}
                        ? DeviceBooks::Pool::kCommon
                        : DeviceBooks::Pool::kPrivate;
  switch (entry.action_) {
    case TraceEntry::ALLOC:
      return books.OnAllocate(address, size, AllocationKind::Current());
    case TraceEntry::FREE_COMPLETED:
      return books.OnFree(address);
    case TraceEntry::SEGMENT_ALLOC:
      return books.OnSegment(address, size, pool);
    case TraceEntry::SEGMENT_FREE:
      return books.OnSegmentFreed(address);
    case TraceEntry::SEGMENT_MAP:
      return books.OnMapped(size);
    case TraceEntry::SEGMENT_UNMAP:
      return books.OnUnmapped(size);
    default:
      return;
  }
}

// Asked by the native allocator, under its lock, where nothing cached fits.
class OnMiss final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    if (request.device < 0) return false;
    DeviceState& state = States()[request.device];
    const Bytes budget{state.budget.load()};
    if (budget == kNoBudget) return false;
    const Bytes more = state.books.reserved() + SegmentFor(request.size);
    // It gives idle segments back by itself before it fails.
    if (more <= budget + state.books.idle()) return false;
    return Relieve(request.device, RoundUp(request.size, kRounding),
                   /*is_locked=*/true);
  }
};

// The byte to fill with, or -1.
thread_local int fill_here = -1;

void Fill(void* block, size_t size) {
  if (fill_here < 0 || size == 0) return;
  const auto api = CudaApi::Loaded();
  if (!api.ok()) return;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  const absl::Status filled =
      CudaStatus(**api, (*api)->memset_async(block, fill_here, size, stream),
                 "cudaMemsetAsync");
  TORCH_CHECK(filled.ok(), "ebbtide: ", std::string(filled.message()));
}

std::atomic<void (*)(void* block)> free_observer = nullptr;
void DeleteObserved(void* block);

class BudgetedCudaAllocator final : public ForwardingCudaAllocator {
 public:
  explicit BudgetedCudaAllocator(native::CUDAAllocator* inner)
      : ForwardingCudaAllocator(inner) {
    if (inner->initialized()) Attach();
  }

  c10::DataPtr allocate(size_t size) override {
    c10::DataPtr data = WithRoom(size, [&] { return inner().allocate(size); });
    Fill(data.get(), size);
    return data;
  }
  void* raw_alloc(size_t size) override {
    return WithRoom(size, [&] { return inner().raw_alloc(size); });
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return WithRoom(
        size, [&] { return inner().raw_alloc_with_stream(size, stream); });
  }

  void init(int devices) override {
    inner().init(devices);
    Attach();
  }

  // The native one leaves alone what has another deleter than its own.
  using ForwardingCudaAllocator::recordStream;
  void recordStream(const c10::DataPtr& data,
                    c10::cuda::CUDAStream stream) override {
    if (data.get_deleter() != &DeleteObserved) {
      return inner().recordStream(data, stream);
    }
    KeepFor(data.get(), stream);
  }

  // As recordStream, of a block of the native allocator.
  void KeepFor(void* block, c10::cuda::CUDAStream stream) {
    c10::DataPtr native(block, block, raw_deleter(), stream.device());
    inner().recordStream(native, stream);
    native.release_context();
  }

  // The program is told what it has set.
  double getMemoryFraction(DeviceIndex device) override {
    return States()[device].user_fraction;
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    inner().setMemoryFraction(fraction, device);
    DeviceState& state = States()[device];
    state.user_fraction = fraction;
    state.fraction_is_set = false;
  }

 private:
  // Its trace says nothing of devices before they are initialised.
  void Attach() {
    if (!attached_.exchange(true)) inner().attachAllocatorTraceTracker(&Note);
  }

  // Before the first request under a new budget, because it needs the size of
  // the device and with it the device's context.
  void SetFraction(DeviceIndex device, DeviceState* state) {
    if (state->fraction_is_set.exchange(true)) return;
    const int64_t budget = state->budget;
    const auto total =
        static_cast<double>(inner().getMemoryInfo(device).second);
    // The native allocator multiplies and rounds down.
    const double ours = (static_cast<double>(budget) + 0.5) / total;
    inner().setMemoryFraction(std::min(state->user_fraction.load(), ours),
                              device);
  }

  template <typename Take>
  auto WithRoom(size_t size, Take take) -> decltype(take()) {
    const DeviceIndex device = c10::cuda::current_device();
    DeviceState& state = States()[device];
    SetFraction(device, &state);
    if (state.budget == Count(kNoBudget) || size == 0) return take();
    const Bytes rounded = RoundUp(size, kRounding);
    while (state.books.ledger().WouldExceed(rounded) &&
           Relieve(device, rounded, /*is_locked=*/false)) {
    }
    const RequestScope scope({device, size});
    for (;;) {
      try {
        return take();
      } catch (const c10::OutOfMemoryError&) {
        if (!Relieve(device, rounded, /*is_locked=*/false)) throw;
      }
    }
  }

  std::atomic<bool> attached_ = false;
};

std::atomic<BudgetedCudaAllocator*> ours = nullptr;

c10::DeleterFnPtr NativeDeleter() { return ours.load()->raw_deleter(); }

void DeleteObserved(void* block) {
  free_observer.load()(block);
  // The observer may have queued work that reads the block.
  ours.load()->KeepFor(block, c10::cuda::getCurrentCUDAStream());
  NativeDeleter()(block);
}

}  // namespace

absl::Status CudaAllocator::Install(PressureHandler handler) {
  native::CUDAAllocator* const inner = native::get();
  if (ours != nullptr) {
    return absl::FailedPreconditionError("it has been replaced before");
  }
  if (inner->name() != "native") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the CUDA allocator is \"", inner->name(), "\", not the native one"));
  }
  on_pressure = handler;
  c10::FreeCudaMemoryCallbacksRegistry()->Register("ebbtide", [] {
    return std::unique_ptr<c10::FreeMemoryCallback>(new OnMiss);
  });
  auto* const outer = new BudgetedCudaAllocator(inner);
  ours = outer;
  native::allocator.store(outer);
  // Tensors ask the registered one, everybody else the pointer.
  c10::SetAllocator(c10::DeviceType::CUDA, outer, /*priority=*/255);
  return absl::OkStatus();
}

bool CudaAllocator::IsInPlace() {
  return ours != nullptr && native::get() == ours;
}

void CudaAllocator::SetBudget(DeviceIndex device, Bytes budget) {
  DeviceState& state = States()[device];
  state.books.ledger().SetBudget(budget);
  state.budget = Count(budget);
  state.fraction_is_set = false;
}

int CudaAllocator::ExchangeFill(int byte) {
  return std::exchange(fill_here, byte);
}

bool CudaAllocator::IsNative(const c10::DataPtr& data) {
  const c10::DeleterFnPtr deleter = data.get_deleter();
  return ours != nullptr &&
         (deleter == NativeDeleter() || deleter == &DeleteObserved);
}

void CudaAllocator::SetFreeObserver(void (*observer)(void* block)) {
  free_observer = observer;
}

void CudaAllocator::ObserveFree(c10::DataPtr* data) {
  // Where it is not the native one's, nothing changes.
  static_cast<void>(
      data->compare_exchange_deleter(NativeDeleter(), &DeleteObserved));
}

DeviceBooks& CudaAllocator::Books(DeviceIndex device) {
  return States()[device].books;
}

}  // namespace ebbtide
