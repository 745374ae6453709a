#include "hooks/cuda_device.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/torch_cuda_allocator.h"
#include "allocator/torch_cuda_books.h"
#include "allocator/torch_cuda_device_arena.h"
#include "hooks/cuda_error.h"
#include "hooks/cuda_tier.h"
#include "hooks/guarded.h"
#include "hooks/insist.h"
#include "profiler/clock.h"

namespace ebbtide {
namespace {

std::atomic<bool (*)(const Pressure&)> relieve_in_use = nullptr;

// Set when the thread exits: PyTorch's thread-local current streams are
// destroyed before exit handlers run. Other threads continue.
thread_local bool is_exiting = false;

c10::Device At(int index) {
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
}

cudaStream_t Native(const c10::Stream& stream) {
  return c10::cuda::CUDAStream(stream).stream();
}

struct EventMark final : TimeMark {
  explicit EventMark(CudaEvent taken) : event(std::move(taken)) {}
  const CudaEvent event;
  const int64_t asked = NowNanos();  // before it is recorded
};

std::shared_ptr<const CudaEvent> EventOf(
    const std::shared_ptr<const TimeMark>& mark) {
  return {mark, &static_cast<const EventMark&>(*mark).event};
}

}  // namespace

CudaDevice::CudaDevice(const CudaApi* api, int devices)
    : Device(c10::DeviceType::CUDA, /*is_async=*/true,
             c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutocastCUDA),
      api_(*api),
      run_peaks_(devices) {
  for (int i = 0; i < devices; ++i) {
    ledgers_.push_back(&BooksOf(static_cast<c10::DeviceIndex>(i)).ledger());
    events_.push_back(CudaEvents::Create(api, i));
    clocks_.push_back(std::make_shared<CudaClock>());
  }
}

bool CudaDevice::Relieve(c10::DeviceIndex device, Bytes needed,
                         bool is_locked) {
  const auto relieve = relieve_in_use.load();
  return relieve != nullptr &&
         relieve({.device = device, .needed = needed, .is_locked = is_locked});
}

absl::Status CudaDevice::Install(const Settings& /*settings*/,
                                 const Callbacks& callbacks) {
  CudaAllocator::SetFreeObserver(&BeforeFree);
  relieve_in_use = callbacks.relieve;
  return absl::OkStatus();
}

Device::Facts CudaDevice::FactsOf(int index) const {
  Facts facts = {.name = at::cuda::getDeviceProperties(
                             static_cast<c10::DeviceIndex>(index))
                             ->name};
  int kilohertz = 0;
  const absl::Status known = CudaStatus(
      api_, api_.device_get_attribute(&kilohertz, cudaDevAttrClockRate, index),
      "cudaDeviceGetAttribute");
  if (known.ok()) facts.megahertz = kilohertz / 1e3;
  facts.versions =
      absl::StrCat("CUDA runtime ", at::detail::getCUDAHooks().versionCUDART());
  return facts;
}

int CudaDevice::CurrentIndex() const {
  return Insist([] { return c10::cuda::current_device(); });
}

DeviceArena* CudaDevice::ArenaOf(int index) {
  return IsUsed() ? CudaAllocator::ArenaOf(static_cast<c10::DeviceIndex>(index))
                  : nullptr;
}

bool CudaDevice::BeginStep(int index, int64_t plan) {
  DeviceArena* const arena = ArenaOf(index);
  return arena != nullptr && arena->BeginStep(plan);
}

void CudaDevice::EndPlan(int index) {
  if (DeviceArena* const arena = ArenaOf(index)) arena->EndPlan();
}

std::optional<Bytes> CudaDevice::WasteBeside(int index) const {
  const DeviceArena* const arena = ArenaOf(index);
  if (arena == nullptr) return std::nullopt;
  const auto device = static_cast<c10::DeviceIndex>(index);
  return arena->WasteBeside(CudaAllocator::BudgetOf(device));
}

std::optional<Bytes> CudaDevice::ReservedAsPlanned(int index) const {
  const DeviceArena* const arena = ArenaOf(index);
  if (arena == nullptr) return std::nullopt;
  const StepArena::Facts facts = arena->facts();
  if (facts.lacking > Bytes{}) {
    return CudaAllocator::BudgetOf(static_cast<c10::DeviceIndex>(index)) +
           facts.lacking;
  }
  if (facts.state != StepArena::State::kServing) return std::nullopt;
  return std::max(facts.pages.planned, facts.height) + facts.beside;
}

Device::Room CudaDevice::RoomOf(int index) const {
  const auto device = static_cast<c10::DeviceIndex>(index);
  const auto [free, total] =
      c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(device);
  const Bytes reserved = BooksOf(device).reserved();
  return {.total = Bytes{static_cast<int64_t>(total)},
          .free = Bytes{static_cast<int64_t>(free)} + reserved};
}

void CudaDevice::SetBudget(int index, Bytes budget) {
  CudaAllocator::SetBudget(static_cast<c10::DeviceIndex>(index), budget);
}

Bytes CudaDevice::StepPeak(int index) const {
  return BooksOf(index).ReservedPeak();
}

Bytes CudaDevice::RunPeak(int index) const {
  return std::max(run_peaks_[index], StepPeak(index));
}

void CudaDevice::ResetPeak(int index) {
  run_peaks_[index] = RunPeak(index);
  BooksOf(index).ResetPeak();
  ledger(index).ResetPeak();
}

bool CudaDevice::FindsRoom(int index, Bytes wanted) const {
  return CudaAllocator::FindsRoom(static_cast<c10::DeviceIndex>(index), wanted);
}

Bytes CudaDevice::SizeOnDevice(size_t bytes) const { return RoundUp(bytes); }

c10::Storage CudaDevice::Allocate(size_t bytes, int index) {
  const c10::DeviceGuard there(At(index));
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                      c10::cuda::CUDACachingAllocator::get(),
                      /*resizable=*/true);
}

bool CudaDevice::IsReclaimable(const c10::Storage& storage) const {
  return CudaAllocator::IsNative(storage.data_ptr()) &&
         !BooksOf(storage.device().index()).IsPrivate(storage.data());
}

void CudaDevice::SeeFree(const c10::Storage& storage) {
  CudaAllocator::ObserveFree(
      &storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks());
}

void CudaDevice::Copy(void* to, const void* from, size_t bytes,
                      cudaMemcpyKind kind, const c10::Stream& stream) {
  const CudaDeviceScope scope(api_, stream.device_index());
  CheckCall(
      api_,
      CudaStatus(api_, api_.memcpy_async(to, from, bytes, kind, Native(stream)),
                 "cudaMemcpyAsync"));
}

c10::Storage CudaDevice::OnHost(const c10::Storage& bytes) {
  if (!bytes.device().is_cuda()) return bytes;
  c10::Storage here(c10::Storage::use_byte_size_t(), bytes.nbytes(),
                    c10::GetCPUAllocator(), /*resizable=*/false);
  if (bytes.nbytes() == 0) return here;
  const c10::Stream stream = CurrentStream(bytes.device().index());
  Copy(here.mutable_data(), bytes.data(), bytes.nbytes(),
       cudaMemcpyDeviceToHost, stream);
  const CudaScope scope(api_, stream.device_index());
  CheckCall(api_, CudaStatus(api_, api_.stream_synchronize(Native(stream)),
                             "cudaStreamSynchronize"));
  return here;
}

c10::Storage CudaDevice::CopyOf(const c10::Storage& bytes) {
  const int index = bytes.device().index();
  c10::Storage copy = Allocate(bytes.nbytes(), index);
  if (bytes.nbytes() == 0) return copy;
  Copy(copy.mutable_data(), bytes.data(), bytes.nbytes(),
       cudaMemcpyDeviceToDevice, CurrentStream(index));
  return copy;
}

at::Generator CudaDevice::DefaultGenerator(int index) {
  return at::cuda::detail::getDefaultCUDAGenerator(
      static_cast<c10::DeviceIndex>(index));
}

// Not by set_state, which also forgets the dropout states of cuDNN.
void CudaDevice::SetState(const at::Tensor& state, at::Generator* generator) {
  if (!generator->device().is_cuda()) return generator->set_state(state);
  struct {
    uint64_t seed;
    uint64_t offset;
  } words;
  TORCH_CHECK(state.nbytes() == sizeof(words), "ebbtide: a CUDA generator has ",
              state.nbytes(), " bytes of state, not ", sizeof(words));
  std::memcpy(&words, state.const_data_ptr(), sizeof(words));
  auto* const philox = generator->get<at::CUDAGeneratorImpl>();
  // Each asks whether a stream is capturing.
  Insist([&] {
    if (philox->current_seed() != words.seed) {
      philox->set_current_seed(words.seed);
    }
    philox->set_philox_offset_per_thread(words.offset);
  });
}

void CudaDevice::BeginExit() { is_exiting = true; }

c10::Stream CudaDevice::CurrentStream(int index) {
  const auto device = static_cast<c10::DeviceIndex>(index);
  return (is_exiting ? c10::cuda::getDefaultCUDAStream(device)
                     : c10::cuda::getCurrentCUDAStream(device))
      .unwrap();
}

void CudaDevice::Order(const c10::Stream& before, const c10::Stream& after) {
  if (before == after) return;
  const CudaDeviceScope scope(api_, before.device_index());
  auto event = events_[before.device_index()]->Take(CudaEvent::Use::kOrder);
  CheckCall(api_, event.status());
  CheckCall(api_, event->Record(Native(before)));
  CheckCall(api_, event->OrderBefore(Native(after)));
}

void CudaDevice::KeepFor(const c10::Storage& storage,
                         const c10::Stream& stream) {
  c10::cuda::CUDACachingAllocator::recordStream(storage.data_ptr(),
                                                c10::cuda::CUDAStream(stream));
}

bool CudaDevice::IsUsed() {
  return c10::cuda::CUDACachingAllocator::get()->initialized();
}

std::shared_ptr<const TimeMark> CudaDevice::MarkTime(int index) {
  if (!IsUsed()) return nullptr;
  const c10::Stream stream = CurrentStream(index);
  const CudaDeviceScope scope(api_, index);
  auto event = events_[index]->Take(CudaEvent::Use::kTiming);
  if (!event.ok()) return nullptr;
  auto mark = std::make_shared<const EventMark>(*std::move(event));
  if (!mark->event.Record(Native(stream)).ok()) return nullptr;
  return mark;
}

std::optional<double> CudaDevice::NanosecondsBetween(const TimeMark& begin,
                                                     const TimeMark& end,
                                                     bool wait) {
  const CudaEvent& from = static_cast<const EventMark&>(begin).event;
  const CudaEvent& to = static_cast<const EventMark&>(end).event;
  // It says by itself that one of them has not been reached.
  const auto elapsed = from.MillisecondsUntil(to);
  if (elapsed.ok() && *elapsed) return **elapsed * 1e6;
  if (!elapsed.ok() || !wait) return std::nullopt;
  const CudaScope scope(api_);
  if (to.Wait() != cudaSuccess) return std::nullopt;
  const auto waited = from.MillisecondsUntil(to);
  return waited.ok() && *waited ? std::optional(**waited * 1e6) : std::nullopt;
}

absl::StatusOr<std::optional<HostTimes>> CudaDevice::HostTimesBetween(
    int index, const std::shared_ptr<const TimeMark>& begin,
    const std::shared_ptr<const TimeMark>& end) {
  CudaClock& clock = *clocks_[index];
  const auto ended = clock.SecondsOf(EventOf(end));
  if (!ended.ok()) return ended.status();
  if (!*ended) return std::nullopt;
  const auto began = clock.SecondsOf(EventOf(begin));
  if (!began.ok()) return began.status();
  // It is another stream's, and has not been reached: the marks are no pair.
  if (!*began) return absl::FailedPreconditionError("marks of two streams");
  const int64_t asked = static_cast<const EventMark&>(*end).asked;
  return clock.HostTimesOf(**began, **ended, asked);
}

bool CudaDevice::AwaitAll() {
  try {
    for (const c10::DeviceIndex device : CudaAllocator::UsedDevices()) {
      const CudaScope scope(api_, device);
      c10::cuda::device_synchronize();
    }
    return true;
  } catch (const c10::Error&) {
    return false;  // the next user of the device gets the error
  }
}

bool CudaDevice::MayBeCapturing() const { return CudaAllocator::HasOpenPool(); }

bool CudaDevice::IsCapturing() {
  if (!IsUsed()) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t result = api_.stream_is_capturing(
      c10::cuda::getCurrentCUDAStream().stream(), &status);
  // Asked of the default stream, an error says that another one is capturing.
  if (result != cudaSuccess) CudaStatus(api_, result, "").IgnoreError();
  return result != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

absl::StatusOr<std::unique_ptr<HostTier>> CudaDevice::OpenTier(
    const Settings& settings) {
  if (settings.spill_dir.empty()) return std::unique_ptr<HostTier>();
  return std::make_unique<CudaTier>(&api_, settings.host_budget, clocks_);
}

}  // namespace ebbtide
