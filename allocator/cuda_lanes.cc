#include "allocator/cuda_lanes.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

namespace ebbtide {
namespace {

// The lowest there is: where streams compete, the program's go first. Copy
// engines do not look at it.
constexpr int kPriority = 0;

absl::Status NoDevice() {
  return absl::FailedPreconditionError("a child of fork has no device");
}

bool Overlap(Extent a, Extent b) {
  return a.offset < b.offset + Count(b.size) &&
         b.offset < a.offset + Count(a.size);
}

}  // namespace

struct CudaLanes::Request {
  CopyWay way;
  char* device;
  Extent extent;
  Bytes size;
  cudaStream_t user;
  CopyLabel label;
  bool is_next = false;
};

absl::StatusOr<std::unique_ptr<CudaLanes>> CudaLanes::Open(
    const CudaApi* api, PinnedSlab* slab, int device, CopyObserver observer) {
  const CudaScope scope(*api, device);
  if (!scope.status().ok()) return scope.status();
  std::unique_ptr<CudaLanes> lanes(
      new CudaLanes(api, slab, device, std::move(observer)));
  for (Lane& lane : lanes->lanes_) {
    // Non-blocking: it must not wait for the program's default stream.
    const absl::Status made =
        CudaStatus(*api,
                   api->stream_create_with_priority(
                       &lane.stream, cudaStreamNonBlocking, kPriority),
                   "cudaStreamCreateWithPriority");
    if (!made.ok()) {
      lane.stream = nullptr;
      return made;
    }
  }
  return lanes;
}

CudaLanes::CudaLanes(const CudaApi* api, PinnedSlab* slab, int device,
                     CopyObserver observer)
    : api_(*api),
      slab_(*slab),
      device_(device),
      process_(getpid()),
      events_(CudaEvents::Create(api, device)),
      meter_(events_, std::move(observer)) {}

CudaLanes::~CudaLanes() {
  if (InChild()) return;
  WaitForAll();
  const CudaScope scope(api_, device_);
  for (Lane& lane : lanes_) {
    if (lane.stream == nullptr) continue;
    // Parts of a failed copy may still run.
    if (!failed_.empty()) {
      CudaStatus(api_, api_.stream_synchronize(lane.stream),
                 "cudaStreamSynchronize")
          .IgnoreError();
    }
    CudaStatus(api_, api_.stream_destroy(lane.stream), "cudaStreamDestroy")
        .IgnoreError();
  }
  for (const Extent extent : kept_) slab_.Give(extent);
}

// The mutex, and the slab's, may have been held when the process forked.
bool CudaLanes::InChild() const { return getpid() != process_; }

absl::StatusOr<Extent> CudaLanes::Take(Bytes size) {
  if (InChild()) return NoDevice();
  if (kept_back() > Bytes{0}) Poll();  // before the slab grows
  return slab_.Take(size);
}

void CudaLanes::Give(Extent extent) {
  if (InChild()) return;
  std::lock_guard lock(mutex_);
  if (!IsTouched(extent)) {
    slab_.Give(extent);
    return;
  }
  try {
    kept_.push_back(extent);
  } catch (const std::bad_alloc&) {
    // The room is lost to later extents; nothing else depends on it.
  }
}

absl::StatusOr<std::shared_ptr<CudaCopy>> CudaLanes::Out(const void* device,
                                                         Extent to, Bytes size,
                                                         cudaStream_t producer,
                                                         CopyLabel label,
                                                         bool is_next) {
  // CopyParts only reads through the pointer on this way.
  char* const from = static_cast<char*>(const_cast<void*>(device));
  return Start({CopyWay::kOut, from, to, size, producer, label, is_next});
}

absl::StatusOr<std::shared_ptr<CudaCopy>> CudaLanes::Back(Extent from,
                                                          void* device,
                                                          Bytes size,
                                                          cudaStream_t consumer,
                                                          CopyLabel label) {
  return Start({CopyWay::kBack, static_cast<char*>(device), from, size,
                consumer, label});
}

absl::Status CudaLanes::Check(const Request& request) const {
  if (InChild()) return NoDevice();
  if (request.size <= Bytes{0} || request.size > request.extent.size) {
    return absl::InvalidArgumentError(
        absl::StrFormat("host memory: a copy of %d bytes in a place of %d",
                        Count(request.size), Count(request.extent.size)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<CudaCopy>> CudaLanes::Start(
    const Request& request) {
  absl::Status status = Check(request);
  if (!status.ok()) return status;
  const CudaDeviceScope scope(api_, device_);
  if (!scope.status().ok()) return scope.status();
  if (++unpolled_ > kPollAt) Poll();
  auto done = events_->Take(CudaEvent::Use::kOrder);
  if (!done.ok()) return done.status();
  status = OrderBehind(request);
  if (!status.ok()) return status;
  // Memory is allocated before any work is queued.
  Copies entry(1, std::make_shared<CudaCopy>(*std::move(done), request.extent,
                                             request.size));
  const std::shared_ptr<CudaCopy> copy = entry.front();
  Lane& lane = LaneOf(request.way);
  status = Copy(request, copy->done());
  if (!status.ok()) {
    // Parts of it may be under way, in memory that the caller may now reuse.
    const CudaScope waits(api_);
    const absl::Status ended = CudaStatus(
        api_, api_.stream_synchronize(lane.stream), "cudaStreamSynchronize");
    if (ended.ok()) return status;
    std::lock_guard lock(mutex_);
    failed_.splice(failed_.end(), entry);
    return status;
  }
  std::lock_guard lock(mutex_);
  lane.pending.splice(lane.pending.end(), entry);
  return copy;
}

// Behind the program's work so far, and behind what the other lane does with
// the same bytes of the slab.
absl::Status CudaLanes::OrderBehind(const Request& request) {
  const cudaStream_t stream = LaneOf(request.way).stream;
  absl::Status status;
  if (!request.is_next) {
    auto now = events_->Take(CudaEvent::Use::kOrder);
    if (!now.ok()) return now.status();
    status = now->Record(request.user);
    if (status.ok()) status = now->OrderBefore(stream);
  }
  Copies touching = TouchingOnOther(request);
  // One look may show that all have ended, which saves a call for each.
  if (!touching.empty() && unpolled_ > kPollAt / 4) {
    Poll();
    touching = TouchingOnOther(request);
  }
  for (const auto& copy : touching) {
    if (status.ok()) status = copy->done().OrderBefore(stream);
  }
  return status;
}

CudaLanes::Copies CudaLanes::TouchingOnOther(const Request& request) const {
  Copies touching;
  std::lock_guard lock(mutex_);
  for (const auto& copy : LaneOf(Other(request.way)).pending) {
    if (Overlap(copy->extent(), request.extent)) touching.push_back(copy);
  }
  return touching;
}

absl::Status CudaLanes::Copy(const Request& request, const CudaEvent& done) {
  const cudaStream_t stream = LaneOf(request.way).stream;
  auto span = meter_.Begin(request.way, request.size, request.label, stream);
  absl::Status status = CopyParts(request);
  meter_.End(request.way, std::move(span), stream, status.ok());
  return status.ok() ? done.Record(stream) : status;
}

absl::Status CudaLanes::CopyParts(const Request& request) {
  const cudaStream_t stream = LaneOf(request.way).stream;
  const int64_t chunk = Count(slab_.chunk());
  int64_t done = 0;
  while (done < Count(request.size)) {
    const int64_t at = request.extent.offset + done;
    const int64_t part = std::min(
        {Count(kPart), Count(request.size) - done, chunk - at % chunk});
    char* const host = slab_.At(at);
    char* const device = request.device + done;
    const cudaError_t result =
        request.way == CopyWay::kOut
            ? api_.memcpy_async(host, device, part, cudaMemcpyDeviceToHost,
                                stream)
            : api_.memcpy_async(device, host, part, cudaMemcpyHostToDevice,
                                stream);
    absl::Status status = CudaStatus(api_, result, "cudaMemcpyAsync");
    if (!status.ok()) return status;
    done += part;
  }
  return absl::OkStatus();
}

absl::Status CudaLanes::OrderAfter(cudaStream_t stream, const CudaCopy& copy) {
  if (InChild()) return NoDevice();
  if (copy.was_seen_done()) return absl::OkStatus();
  const CudaDeviceScope scope(api_, device_);
  if (!scope.status().ok()) return scope.status();
  const absl::Status ordered = copy.done().OrderBefore(stream);
  return ordered.ok() ? copy.Failure() : ordered;
}

absl::Status CudaLanes::Wait(const CudaCopy& copy) {
  if (InChild()) return NoDevice();
  absl::Status ended = copy.Wait();
  Poll();
  return ended;
}

void CudaLanes::WaitForAll() {
  if (InChild()) return;
  for (const Lane& lane : lanes_) {
    Copies pending;
    {
      std::lock_guard lock(mutex_);
      pending = lane.pending;
    }
    for (const auto& copy : pending) copy->Wait().IgnoreError();
  }
  Poll();
}

void CudaLanes::Poll() {
  if (InChild() || IsIdle()) return;
  unpolled_ = 0;
  const CudaScope scope(api_);
  bool has_ended = false;
  for (Lane& lane : lanes_) has_ended |= Retire(&lane);
  if (!has_ended) return;
  ReleaseKept();
  meter_.Poll();
}

bool CudaLanes::IsIdle() const {
  std::lock_guard lock(mutex_);
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.pending.empty(); });
}

bool CudaLanes::Retire(Lane* lane) {
  NoteDone(*lane);
  std::lock_guard lock(mutex_);
  Copies& pending = lane->pending;
  bool has_ended = false;
  for (; !pending.empty(); has_ended = true) {
    if (pending.front()->was_seen_done()) {
      pending.pop_front();
    } else if (!pending.front()->Failure().ok()) {
      failed_.splice(failed_.end(), pending, pending.begin());
    } else {
      break;
    }
  }
  return has_ended;
}

// A lane's copies end in order: the newest first, then halves, show where those
// that are done end.
void CudaLanes::NoteDone(const Lane& lane) const {
  std::vector<std::shared_ptr<CudaCopy>> pending;
  {
    std::lock_guard lock(mutex_);
    pending.assign(lane.pending.begin(), lane.pending.end());
  }
  const auto is_done = [](const std::shared_ptr<CudaCopy>& copy) {
    return copy->state() == CudaCopy::State::kDone;
  };
  if (pending.empty()) return;
  const auto end =
      is_done(pending.back())
          ? pending.end()
          : std::partition_point(pending.begin(), pending.end() - 1, is_done);
  for (auto copy = pending.begin(); copy != end; ++copy) (*copy)->NoteDone();
}

// Under the mutex.
bool CudaLanes::IsTouched(Extent extent) const {
  const auto touches = [extent](const std::shared_ptr<CudaCopy>& copy) {
    return Overlap(copy->extent(), extent);
  };
  return std::any_of(failed_.begin(), failed_.end(), touches) ||
         std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
           return std::any_of(lane.pending.begin(), lane.pending.end(),
                              touches);
         });
}

void CudaLanes::ReleaseKept() {
  std::lock_guard lock(mutex_);
  std::erase_if(kept_, [this](Extent extent) {
    if (IsTouched(extent)) return false;
    slab_.Give(extent);
    return true;
  });
}

Bytes CudaLanes::kept_back() const {
  if (InChild()) return Bytes{0};
  std::lock_guard lock(mutex_);
  Bytes sum{};
  for (const Extent extent : kept_) sum += extent.size;
  return sum;
}

}  // namespace ebbtide
