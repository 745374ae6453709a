#include "allocator/cuda_events.h"

#include <unistd.h>

namespace ebbtide {
namespace {

// Waiting hosts sleep: the cores belong to the program's data loaders. Events
// without times are cheaper for streams to wait for.
unsigned FlagsFor(CudaEvent::Use use) {
  return use == CudaEvent::Use::kTiming
             ? cudaEventBlockingSync
             : cudaEventBlockingSync | cudaEventDisableTiming;
}

}  // namespace

CudaEvent::~CudaEvent() {
  if (pool_ != nullptr) pool_->Give(use_, event_);
}

absl::Status CudaEvent::Record(cudaStream_t stream) const {
  return CudaStatus(api(), api().event_record(event_, stream),
                    "cudaEventRecord");
}

absl::Status CudaEvent::OrderBefore(cudaStream_t stream) const {
  return CudaStatus(api(), api().stream_wait_event(stream, event_, 0),
                    "cudaStreamWaitEvent");
}

cudaError_t CudaEvent::Query() const {
  const cudaError_t result = api().event_query(event_);
  CudaStatus(api(), result, "cudaEventQuery").IgnoreError();
  return result;
}

absl::StatusOr<std::optional<double>> CudaEvent::MillisecondsUntil(
    const CudaEvent& later) const {
  float milliseconds = 0;
  const cudaError_t result =
      api().event_elapsed_time(&milliseconds, event_, later.event_);
  const absl::Status known = CudaStatus(api(), result, "cudaEventElapsedTime");
  if (result == cudaErrorNotReady) return std::nullopt;
  if (!known.ok()) return known;
  return double{milliseconds};
}

cudaError_t CudaEvent::Wait() const {
  const cudaError_t result = api().event_synchronize(event_);
  CudaStatus(api(), result, "cudaEventSynchronize").IgnoreError();
  return result;
}

const CudaApi& CudaEvent::api() const { return pool_->api(); }

std::shared_ptr<CudaEvents> CudaEvents::Create(const CudaApi* api, int device) {
  return std::shared_ptr<CudaEvents>(new CudaEvents(api, device));
}

CudaEvents::CudaEvents(const CudaApi* api, int device)
    : api_(*api), device_(device), process_(getpid()) {}

CudaEvents::~CudaEvents() {
  if (getpid() != process_) return;
  const CudaScope scope(api_);
  for (const Shelf& shelf : shelves_) {
    for (cudaEvent_t event : shelf.free) {
      CudaStatus(api_, api_.event_destroy(event), "cudaEventDestroy")
          .IgnoreError();
    }
  }
}

absl::StatusOr<CudaEvent> CudaEvents::Take(CudaEvent::Use use) {
  {
    std::lock_guard lock(mutex_);
    Shelf& shelf = ShelfOf(use);
    if (!shelf.free.empty()) {
      const cudaEvent_t event = shelf.free.back();
      shelf.free.pop_back();
      return CudaEvent(shared_from_this(), use, event);
    }
    shelf.free.reserve(++shelf.made);
  }
  cudaEvent_t event = nullptr;
  const absl::Status made =
      CudaStatus(api_, api_.event_create_with_flags(&event, FlagsFor(use)),
                 "cudaEventCreateWithFlags");
  if (!made.ok()) return made;
  return CudaEvent(shared_from_this(), use, event);
}

void CudaEvents::Give(CudaEvent::Use use, cudaEvent_t event) {
  std::lock_guard lock(mutex_);
  ShelfOf(use).free.push_back(event);
}

}  // namespace ebbtide
