// The functions that FakeCuda puts in the place of CUDA's.
#include <algorithm>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "tests/allocator/fake_cuda.h"

namespace ebbtide {

struct FakeCalls {
  using Lock = std::lock_guard<std::recursive_mutex>;
  using Record = FakeCuda::Record;
  using Stream = FakeCuda::Stream;
  using Event = FakeCuda::Event;

  static CudaApi Table();
  static FakeCuda& Fake() { return *FakeCuda::live_; }

  static cudaError_t Fail(cudaError_t error) {
    return FakeCuda::last_error() = error;
  }

  static cudaError_t PeekAtLastError() { return FakeCuda::last_error(); }
  static cudaError_t GetLastError() {
    const cudaError_t error = FakeCuda::last_error();
    if (!Fake().broken_) FakeCuda::last_error() = cudaSuccess;
    return error;
  }
  static const char* GetErrorName(cudaError_t) { return "cudaErrorFake"; }
  static const char* GetErrorString(cudaError_t) { return "made to fail"; }

  static cudaError_t GetDevice(int* device) {
    if (const cudaError_t e = Fake().Enter("cudaGetDevice")) return e;
    *device = FakeCuda::current_device();
    return cudaSuccess;
  }
  static cudaError_t SetDevice(int device) {
    if (const cudaError_t e = Fake().Enter("cudaSetDevice")) return e;
    FakeCuda::current_device() = device;
    return cudaSuccess;
  }
  static cudaError_t DeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                        int device) {
    if (const cudaError_t e = Fake().Enter("cudaDeviceGetAttribute")) return e;
    if (attribute != cudaDevAttrHostNumaId) return Fail(cudaErrorInvalidValue);
    *value = device == 0 ? 3 : -1;
    return cudaSuccess;
  }

  static cudaError_t HostRegister(void* host, size_t size, unsigned flags) {
    if (const cudaError_t e = Fake().Enter("cudaHostRegister", true)) return e;
    const Lock lock(Fake().mutex_);
    EXPECT_EQ(flags, unsigned{cudaHostRegisterPortable});
    if (Fake().registrations_left && (*Fake().registrations_left)-- <= 0) {
      return Fail(cudaErrorMemoryAllocation);
    }
    char* const address = static_cast<char*>(host);
    bool crosses = false;
    if (Fake().IsRegistered(address, size, &crosses) || crosses) {
      ADD_FAILURE() << "registered twice";
    }
    // Faults here if it is not mapped.
    for (size_t i = 0; i < size; i += 4096) address[i] = address[i];
    Fake().registered[address] = size;
    return cudaSuccess;
  }
  // Whatever it returns, it is done.
  static cudaError_t HostUnregister(void* host) {
    const cudaError_t entered = Fake().Enter("cudaHostUnregister", true);
    const Lock lock(Fake().mutex_);
    EXPECT_EQ(Fake().registered.erase(static_cast<char*>(host)), 1u);
    return entered;
  }

  static cudaError_t StreamCreate(cudaStream_t* stream, unsigned flags, int) {
    if (const cudaError_t e = Fake().Enter("cudaStreamCreateWithPriority")) {
      return e;
    }
    const Lock lock(Fake().mutex_);
    EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
    *stream = Fake().NewStream(FakeCuda::current_device());
    Fake().made_.push_back(*stream);
    Fake().devices_of_made.push_back(FakeCuda::current_device());
    ++Fake().live_streams_;
    return cudaSuccess;
  }
  static cudaError_t StreamDestroy(cudaStream_t stream) {
    const cudaError_t entered = Fake().Enter("cudaStreamDestroy");
    const Lock lock(Fake().mutex_);
    Fake().At(stream).destroyed = true;
    --Fake().live_streams_;
    return entered;
  }
  static cudaError_t StreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                     unsigned) {
    if (const cudaError_t e = Fake().Enter("cudaStreamWaitEvent")) return e;
    const Lock lock(Fake().mutex_);
    Stream& waits = Fake().At(stream);
    const Event& found = *Fake().Find(event);
    EXPECT_NE(found.flags & cudaEventDisableTiming, 0u) << "it waits longer";
    const auto record = found.record;
    waits.queue.push_back(
        {record, [record](Stream& s) { s.now = std::max(s.now, record->at); }});
    return cudaSuccess;
  }
  static cudaError_t StreamSynchronize(cudaStream_t stream) {
    if (const cudaError_t e = Fake().Enter("cudaStreamSynchronize", true)) {
      return e;
    }
    const Lock lock(Fake().mutex_);
    auto record = std::make_shared<Record>();
    record->done = false;
    Fake().At(stream).queue.push_back(
        {nullptr, [record](Stream&) { record->done = true; }});
    return Fake().RunUntil(*record) ? cudaSuccess : Fail(cudaErrorUnknown);
  }
  static cudaError_t ExchangeCaptureMode(cudaStreamCaptureMode* mode) {
    if (const cudaError_t e =
            Fake().Enter("cudaThreadExchangeStreamCaptureMode")) {
      return e;
    }
    std::swap(*mode, FakeCuda::capture_mode());
    return cudaSuccess;
  }

  static cudaError_t EventCreate(cudaEvent_t* event, unsigned flags) {
    if (const cudaError_t e = Fake().Enter("cudaEventCreateWithFlags")) {
      return e;
    }
    const Lock lock(Fake().mutex_);
    auto* const made = new Event{flags, FakeCuda::current_device(),
                                 std::make_shared<Record>()};
    Fake().events_.insert(made);
    Fake().devices_of_made.push_back(made->device);
    *event = reinterpret_cast<cudaEvent_t>(made);
    return cudaSuccess;
  }
  static cudaError_t EventDestroy(cudaEvent_t event) {
    const cudaError_t entered = Fake().Enter("cudaEventDestroy");
    const Lock lock(Fake().mutex_);
    Event* const found = Fake().Find(event);
    Fake().events_.erase(found);
    delete found;
    return entered;
  }
  static cudaError_t EventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (const cudaError_t e = Fake().Enter("cudaEventRecord")) return e;
    const Lock lock(Fake().mutex_);
    Event* const found = Fake().Find(event);
    Stream& at = Fake().At(stream);
    EXPECT_EQ(found->device, at.device) << "an event of another device";
    auto record = std::make_shared<Record>();
    record->done = false;
    found->record = record;
    at.queue.push_back({nullptr, [record](Stream& s) {
                          record->done = true;
                          record->at = s.now;
                        }});
    return cudaSuccess;
  }
  static cudaError_t EventQuery(cudaEvent_t event) {
    if (const cudaError_t e = Fake().Enter("cudaEventQuery", true)) return e;
    const Lock lock(Fake().mutex_);
    return Fake().Find(event)->record->done ? cudaSuccess : cudaErrorNotReady;
  }
  static cudaError_t EventSynchronize(cudaEvent_t event) {
    if (const cudaError_t e = Fake().Enter("cudaEventSynchronize", true)) {
      return e;
    }
    const Lock lock(Fake().mutex_);
    const auto record = Fake().Find(event)->record;
    return Fake().RunUntil(*record) ? cudaSuccess : Fail(cudaErrorUnknown);
  }
  static cudaError_t EventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                      cudaEvent_t end) {
    if (const cudaError_t e = Fake().Enter("cudaEventElapsedTime")) return e;
    const Lock lock(Fake().mutex_);
    const Event& from = *Fake().Find(begin);
    const Event& to = *Fake().Find(end);
    if (((from.flags | to.flags) & cudaEventDisableTiming) != 0) {
      ADD_FAILURE() << "an event that keeps no time";
      return Fail(cudaErrorInvalidResourceHandle);
    }
    if (!from.record->done || !to.record->done) return cudaErrorNotReady;
    *milliseconds = static_cast<float>((to.record->at - from.record->at) * 1e3);
    return cudaSuccess;
  }

  static cudaError_t MemcpyAsync(void* to, const void* from, size_t size,
                                 cudaMemcpyKind kind, cudaStream_t stream) {
    if (const cudaError_t e = Fake().Enter("cudaMemcpyAsync")) return e;
    const Lock lock(Fake().mutex_);
    const bool out = kind == cudaMemcpyDeviceToHost;
    const char* const host = static_cast<const char*>(out ? to : from);
    bool crosses = false;
    const bool pinned = Fake().IsRegistered(host, size, &crosses);
    if (crosses) {
      ADD_FAILURE() << "a copy crosses the border of a registration";
      return Fail(cudaErrorInvalidValue);
    }
    Fake().parts.push_back(size);
    const double seconds = size / (out ? Fake().bytes_per_second_out
                                       : Fake().bytes_per_second_back);
    auto record = std::make_shared<Record>();
    record->done = false;
    Fake().At(stream).queue.push_back({nullptr, [=](Stream& s) {
                                         Move(to, from, size, host, pinned);
                                         s.now += seconds;
                                         record->done = true;
                                       }});
    if (!pinned) Fake().RunUntil(*record);  // the host does the copying
    return cudaSuccess;
  }
  static void Move(void* to, const void* from, size_t size, const char* host,
                   bool pinned) {
    bool crosses = false;
    if (pinned && !Fake().IsRegistered(host, size, &crosses)) {
      ADD_FAILURE() << "a copy runs after its host memory was unregistered";
      return;
    }
    std::memcpy(to, from, size);
  }
};

CudaApi FakeCalls::Table() {
  return {
      .peek_at_last_error = PeekAtLastError,
      .get_last_error = GetLastError,
      .get_error_name = GetErrorName,
      .get_error_string = GetErrorString,
      .get_device = GetDevice,
      .set_device = SetDevice,
      .device_get_attribute = DeviceGetAttribute,
      .host_register = HostRegister,
      .host_unregister = HostUnregister,
      .stream_create_with_priority = StreamCreate,
      .stream_destroy = StreamDestroy,
      .stream_wait_event = StreamWaitEvent,
      .stream_synchronize = StreamSynchronize,
      .thread_exchange_stream_capture_mode = ExchangeCaptureMode,
      .event_create_with_flags = EventCreate,
      .event_destroy = EventDestroy,
      .event_record = EventRecord,
      .event_query = EventQuery,
      .event_synchronize = EventSynchronize,
      .event_elapsed_time = EventElapsedTime,
      .memcpy_async = MemcpyAsync,
  };
}

CudaApi FakeCuda::Table() { return FakeCalls::Table(); }

}  // namespace ebbtide
