#include "allocator/torch_cuda_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/cuda_api.h"
#include "allocator/torch_cuda_arena.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_budget.h"
#include "allocator/torch_cuda_fill.h"
#include "allocator/torch_cuda_forward.h"

namespace ebbtide {
namespace {

using c10::DeviceIndex;

// The request that this thread is making, for what runs inside it.
struct Request {
  DeviceIndex device = -1;  // none
  size_t size = 0;
  cudaStream_t stream = nullptr;
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

// Set before ours is in place, and never changed.
CudaAllocator::Policy policy;

// What the handler does may allocate, and must not ask for itself again.
bool Relieve(DeviceIndex device, Bytes needed, Shortage shortage) {
  if (policy.relieve == nullptr || in_handler) return false;
  in_handler = true;
  const bool relieved = policy.relieve(device, needed, shortage);
  in_handler = false;
  return relieved;
}

// How many private pools requests may be going to.
std::atomic<int> open_pools = 0;

CacheRequest RequestFor(DeviceIndex device, size_t size) {
  return CacheRequestFor(
      size, request.device == device
                ? request.stream
                : c10::cuda::getCurrentCUDAStream(device).stream());
}

bool HasRoom(DeviceIndex device, size_t size) {
  const DeviceBooks& books = BooksOf(device);
  const CacheRequest request = RequestFor(device, size);
  if (open_pools <= 0) return books.FindsRoom(request);
  return books.reserved() + request.segment <=
         books.ledger().budget() + books.idle();
}

// Asked by the native allocator, under its lock, where nothing cached fits.
class OnMiss final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    if (request.device < 0) return false;
    const int64_t budget = CudaBudgets()[request.device].budget;
    if (budget == Count(kNoBudget)) return false;
    // It gives empty segments back, and waits for what is leaving others, by
    // itself before it fails.
    if (HasRoom(request.device, request.size)) return false;
    return Relieve(request.device, RoundUp(request.size), Shortage::kMissed);
  }
};

std::atomic<void (*)(void* block)> free_observer = nullptr;
void DeleteObserved(void* block);

class BudgetedCudaAllocator final : public ForwardingCudaAllocator {
 public:
  explicit BudgetedCudaAllocator(ArenaCudaAllocator* inner)
      : ForwardingCudaAllocator(inner),
        arenas_(*inner),
        sees_blocks_(inner->name() == "native") {
    if (!inner->initialized()) return;
    Attach();
    if (!sees_blocks_) return;
    const auto snapshot = inner->snapshot({0, 0}, /*include_traces=*/false);
    for (const auto& segment : snapshot.segments) NoteBefore(segment);
  }

  bool sees_blocks() const { return sees_blocks_; }
  ArenaCudaAllocator& arenas() { return arenas_; }

  c10::DataPtr allocate(size_t size) override {
    c10::DataPtr data =
        WithRoom(size, std::nullopt, [&](size_t asked, bool is_again) {
          return is_again ? arenas_.AllocateAgain(size, asked)
                          : inner().allocate(size);
        });
    FillNewBlock(data.get(), size);
    return data;
  }
  void* raw_alloc(size_t size) override {
    return WithRoom(size, std::nullopt, [&](size_t asked, bool) {
      return inner().raw_alloc(asked);
    });
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return WithRoom(size, stream, [&](size_t asked, bool) {
      return inner().raw_alloc_with_stream(asked, stream);
    });
  }

  void beginAllocateToPool(DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    inner().beginAllocateToPool(device, pool, std::move(filter));
    ++open_pools;
  }
  void endAllocateToPool(DeviceIndex device, c10::MempoolId_t pool) override {
    inner().endAllocateToPool(device, pool);
    --open_pools;
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

  // As recordStream, of a block of whatever deleter.
  void KeepFor(void* block, c10::cuda::CUDAStream stream) {
    c10::DataPtr native(block, block, raw_deleter(), stream.device());
    inner().recordStream(native, stream);
    native.release_context();
  }

  // The program is told what it has set, and its mistakes by the native one.
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
  // Its trace says nothing of devices before they are initialised.
  void Attach() {
    if (sees_blocks_ && !attached_.exchange(true)) {
      inner().attachAllocatorTraceTracker(&NoteTrace);
    }
  }

  // Before the first request under a new budget or fraction, because it needs
  // the size of the device and with it the device's context.
  void Settle(DeviceIndex device, CudaBudget* state) {
    if (state->is_settled || !inner().initialized()) return;
    if (state->is_settled.exchange(true)) return;
    state->is_used = true;
    // The stream may be in capture.
    const auto api = CudaApi::Loaded();
    std::optional<CudaScope> relaxed;
    if (api.ok()) relaxed.emplace(**api);
    const auto [free, total] = inner().getMemoryInfo(device);
    if (!state->has_been_asked_for.exchange(true) && policy.budget != nullptr) {
      SetCudaBudget(
          device,
          policy.budget(device, {.total = Bytes{static_cast<int64_t>(total)},
                                 .free = Bytes{static_cast<int64_t>(free)},
                                 .reserved = BooksOf(device).reserved()}));
      if (state->budget == Count(kNoBudget)) BooksOf(device).ForgetPlaces();
    }
    SetFraction(device, total, state);
    GiveBackExcess(device, *state);
  }

  // Segments that nothing uses, where a budget has become smaller than what is
  // cached. While a graph is captured PyTorch cannot look for them.
  void GiveBackExcess(DeviceIndex device, const CudaBudget& state) {
    const DeviceBooks& books = BooksOf(device);
    if (state.budget == Count(kNoBudget) || open_pools > 0 ||
        books.reserved() <= Bytes{state.budget.load()} ||
        books.idle() <= Bytes{0}) {
      return;
    }
    inner().emptyCache({0, 0});
  }

  void SetFraction(DeviceIndex device, size_t total, CudaBudget* state) {
    double fraction = state->user_fraction;
    if (const int64_t budget = state->budget; budget != Count(kNoBudget)) {
      // The native allocator multiplies and rounds down.
      fraction = std::min(fraction, (static_cast<double>(budget) + 0.5) /
                                        static_cast<double>(total));
    }
    if (fraction >= 1 && !state->has_fraction) return;
    state->has_fraction = true;
    inner().setMemoryFraction(std::min(fraction, 1.0), device);
  }

  // Without a look at the segments where what is alive leaves room: then it is
  // rare that none of them has, and OnMiss sees to it.
  bool WouldExceed(DeviceIndex device, const CudaBudget& state, size_t size) {
    if (sees_blocks_) {
      return BooksOf(device).ledger().WouldExceed(RoundUp(size)) &&
             !HasRoom(device, size);
    }
    const auto live = inner().getDeviceStats(device).allocated_bytes[0];
    return Bytes{live.current} + RoundUp(size) > Bytes{state.budget.load()};
  }

  // `stream`: the request's, where it is not this thread's. `take`: with what
  // to ask the native allocator for, and whether it has failed before.
  template <typename Take>
  auto WithRoom(size_t size, std::optional<cudaStream_t> stream, Take take)
      -> decltype(take(size, false)) {
    const DeviceIndex device = c10::cuda::current_device();
    CudaBudget& state = CudaBudgets()[device];
    Settle(device, &state);
    if (state.budget == Count(kNoBudget) || size == 0) return take(size, false);
    if (!stream) stream = c10::cuda::getCurrentCUDAStream(device).stream();
    const RequestScope scope({device, size, *stream});
    const Bytes rounded = RoundUp(size);
    while (WouldExceed(device, state, size) &&
           Relieve(device, rounded, Shortage::kForeseen)) {
    }
    const size_t least = sees_blocks_ ? SizeForLeastSegment(size) : size;
    bool is_again = false;
    size_t asked = size;
    for (;;) {
      try {
        return take(asked, is_again);
      } catch (const c10::OutOfMemoryError& error) {
        // It has waited for what was leaving, and did not look again.
        const bool has_room = !std::exchange(is_again, true) && sees_blocks_ &&
                              HasRoom(device, size);
        if (has_room || Relieve(device, rounded, Shortage::kFailed) ||
            std::exchange(asked, least) != least) {
          continue;
        }
        if (!arenas_.GiveUpIdle(device, rounded)) {
          ThrowWithReport(error, device, rounded);
        }
        asked = size;
      }
    }
  }

  // In a catch clause.
  [[noreturn]] static void ThrowWithReport(const c10::OutOfMemoryError& error,
                                           DeviceIndex device, Bytes wanted) {
    std::string report;
    if (policy.explain != nullptr) report = policy.explain(device, wanted);
    if (report.empty()) throw;
    throw c10::OutOfMemoryError(absl::StrCat(error.msg(), "\n", report),
                                error.backtrace());
  }

  ArenaCudaAllocator& arenas_;
  const bool sees_blocks_;
  std::atomic<bool> attached_ = false;
};

std::atomic<BudgetedCudaAllocator*> ours = nullptr;

// What a block has that nobody has asked to observe.
c10::DeleterFnPtr DeleterOf(const void* block) {
  return ours.load()->arenas().Owns(block) ? &ArenaCudaAllocator::Delete
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
  ours =
      new BudgetedCudaAllocator(new ArenaCudaAllocator(inner, chosen.name_op));
  native::allocator.store(ours);
  // Tensors ask the registered one, everybody else the pointer.
  c10::SetAllocator(c10::DeviceType::CUDA, ours, /*priority=*/255);
  return absl::OkStatus();
}

void CudaAllocator::BeginStep(DeviceIndex device, bool wants_arena) {
  if (ours != nullptr) ours.load()->arenas().BeginStep(device, wants_arena);
}

std::optional<StepArena::Facts> CudaAllocator::ArenaOf(DeviceIndex device) {
  if (ours == nullptr) return std::nullopt;
  return ours.load()->arenas().FactsOf(device);
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

DeviceBooks& CudaAllocator::Books(DeviceIndex device) {
  return BooksOf(device);
}

bool CudaAllocator::FindsRoom(DeviceIndex device, Bytes size) {
  return HasRoom(device, static_cast<size_t>(Count(size)));
}

std::vector<int> CudaAllocator::CheapestToClear(
    DeviceIndex device, Bytes size, absl::Span<const Clearable> clearables) {
  if (open_pools > 0) return {};
  return BooksOf(device).CheapestToClear(
      RequestFor(device, static_cast<size_t>(Count(size))), clearables);
}

}  // namespace ebbtide
