// Streams, events and host functions.
#include <algorithm>

#include "tests/cudasim/runtime.h"

struct CUevent_st {
  unsigned flags;
  cudasim::OpRef op;
  std::shared_ptr<cudasim::Capture> capture;  // recorded inside of it
};

namespace cudasim {
namespace {

constexpr Nanos kHostFunctionNs = 1000;
// Device time of an event. In the traces of tests/data/h100 the shortest
// kernels, which take about 2.5 us, have 4 between two events.
constexpr Nanos kEventNs = 1500;

cudaError_t CreateStream(Call& call, cudaStream_t* out, unsigned flags,
                         int priority) {
  if (call.error()) return Report(call.error());
  Stream* const stream = call->queue.Create(
      Thread().device, (flags & cudaStreamNonBlocking) != 0, priority);
  *out = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

cudaError_t CallHost(Call& call, cudaStream_t handle, const char* name,
                     std::function<void()> function) {
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  Work work;
  work.name = name;
  work.cost = kHostFunctionNs;
  work.call = std::move(function);
  call->Push(stream, std::move(work), call.lock());
  return cudaSuccess;
}

}  // namespace
}  // namespace cudasim

using cudasim::Call;
using cudasim::Error;
using cudasim::Report;
using cudasim::Stream;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* out) {
  Call call(__func__);
  return cudasim::CreateStream(call, out, 0, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  Call call(__func__);
  return cudasim::CreateStream(call, out, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags,
                                         int priority) {
  Call call(__func__);
  return cudasim::CreateStream(call, out, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  auto* const stream = reinterpret_cast<Stream*>(handle);
  return call->queue.Destroy(stream, call.lock())
             ? cudaSuccess
             : Report(Error::kInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  if (stream->capture) return Report(Error::kStreamCaptureUnsupported);
  call->queue.WaitStream(stream, call.lock());
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  if (stream->capture) return Report(Error::kStreamCaptureUnsupported);
  if (cudasim::Queue::EndOf(*stream) > call->queue.now()) {
    return cudaErrorNotReady;
  }
  call->queue.WaitStream(stream, call.lock());
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  const Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  if (event->capture && event->capture != stream->capture) {
    stream->capture = event->capture;
    event->capture->members.push_back(stream);
  } else if (event->op && !stream->capture) {
    call->queue.Await(stream, event->op);
  }
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback, void* argument,
                                  unsigned) {
  Call call(__func__);
  return cudasim::CallHost(call, stream, "callback",
                           [=] { callback(stream, cudaSuccess, argument); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* argument) {
  Call call(__func__);
  return cudasim::CallHost(call, stream, "host function",
                           [=] { function(argument); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  *out = new CUevent_st{flags, nullptr, nullptr};
  ++call->live_events;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  delete event;
  --call->live_events;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle,
                                     unsigned) {
  Call call("cudaEventRecord");
  if (call.error()) return Report(call.error());
  Stream* const stream = call.StreamOf(handle);
  if (stream == nullptr) return Report(Error::kInvalidResourceHandle);
  event->capture = stream->capture;
  if (event->capture) return cudaSuccess;
  const bool is_timed = (event->flags & cudaEventDisableTiming) == 0;
  if (const auto& device = call->settings.device; device && is_timed) {
    call.Spend(device->timing_event_record - device->event_record);
  }
  cudasim::Work work;
  work.name = "event";
  if (call->settings.device) work.cost = cudasim::kEventNs;
  event->op = call->Push(stream, std::move(work), call.lock());
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  if (event->capture) return Report(cudaErrorCapturedEvent);
  const cudasim::OpRef op = event->op;
  call->queue.Wait(op, call.lock());
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Call call(__func__);
  if (call.error()) return Report(call.error());
  if (event->capture) return Report(cudaErrorCapturedEvent);
  const cudasim::OpRef op = event->op;
  if (op && op->end > call->queue.now()) return cudaErrorNotReady;
  call->queue.Wait(op, call.lock());
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) {
  const Call call(__func__);
  if (call.error()) return Report(call.error());
  const bool timed =
      ((start->flags | end->flags) & cudaEventDisableTiming) == 0;
  if (!timed || !start->op || !end->op) {
    return Report(Error::kInvalidResourceHandle);
  }
  if (std::max(start->op->end, end->op->end) > call->queue.now()) {
    return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>((static_cast<double>(end->op->end) -
                                      static_cast<double>(start->op->end)) *
                                     1e-6);
  return cudaSuccess;
}

}  // extern "C"
