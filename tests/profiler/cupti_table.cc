#include "tests/profiler/cupti_table.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>

#include "tests/cudasim/cupti_sim.h"

extern "C" {

using ebbtide::CuptiCallback;
using ebbtide::CuptiComplete;
using ebbtide::CuptiRequest;

int cuptiGetVersion(uint32_t* version);
int cuptiGetResultString(int result, const char** text);
int cuptiSubscribe(void** subscriber, CuptiCallback callback, void* argument);
int cuptiUnsubscribe(void* subscriber);
int cuptiActivityRegisterCallbacks(CuptiRequest request,
                                   CuptiComplete complete);
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable);
int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable);
int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id);
int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* id);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record);
int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream,
                                      size_t* dropped);
int cuptiActivityGetAttribute(uint32_t attribute, size_t* size, void* value);
int cuptiActivitySetAttribute(uint32_t attribute, size_t* size, void* value);

}  // extern "C"

namespace ebbtide {
namespace {

std::atomic<uint64_t> clock_now{0};

uint64_t Now() { return clock_now; }

const char* FunctionFor(uint32_t kind) {
  switch (kind) {
    case cudasim::kKernelKind:
      return "cudaLaunchKernel";
    case cudasim::kSetKind:
      return "cudaMemsetAsync";
    case cudasim::kPeerCopyKind:
      return "cudaMemcpyPeerAsync";
    default:
      return "cudaMemcpyAsync";
  }
}

}  // namespace

const CuptiApi& SimulatedCupti() {
  static const CuptiApi api = {
      .get_version = &cuptiGetVersion,
      .get_result_string = &cuptiGetResultString,
      .subscribe = &cuptiSubscribe,
      .unsubscribe = &cuptiUnsubscribe,
      .activity_register_callbacks = &cuptiActivityRegisterCallbacks,
      .activity_enable = &cuptiActivityEnable,
      .activity_disable = &cuptiActivityDisable,
      .activity_enable_runtime_api = &cuptiActivityEnableRuntimeApi,
      .activity_enable_driver_api = &cuptiActivityEnableDriverApi,
      .activity_push_external_correlation_id =
          &cuptiActivityPushExternalCorrelationId,
      .activity_pop_external_correlation_id =
          &cuptiActivityPopExternalCorrelationId,
      .activity_flush_all = &cuptiActivityFlushAll,
      .activity_get_next_record = &cuptiActivityGetNextRecord,
      .activity_get_num_dropped_records = &cuptiActivityGetNumDroppedRecords,
      .activity_get_attribute = &cuptiActivityGetAttribute,
      .activity_set_attribute = &cuptiActivitySetAttribute,
  };
  return api;
}

// AddressSanitizer takes the bytes before a loaded library's thread-local block
// for malloc's header, which they need not be; its search for leaks then
// crashed on CUPTI's in some processes. Its runtime is a library that looks for
// this name.
extern "C" __attribute__((visibility("default"))) const char*
__asan_default_options() {
  return "intercept_tls_get_addr=0";
}

decltype(CuptiApi::activity_get_next_record) RealNextRecord() {
  void* library = nullptr;
#ifdef EBBTIDE_CUPTI
  library = dlopen(EBBTIDE_CUPTI, RTLD_NOW | RTLD_LOCAL);
#endif
  if (library == nullptr) return nullptr;
  return reinterpret_cast<decltype(CuptiApi::activity_get_next_record)>(
      dlsym(library, "cuptiActivityGetNextRecord"));
}

ClockDevice::ClockDevice() {
  clock_now = 1000;
  cudasim::CuptiSim::Get().set_clock(&Now);
}

void ClockDevice::Start(cudasim::CuptiRecord record, uint64_t nanos) {
  std::lock_guard lock(mutex_);
  const uint64_t now = ++clock_now;
  uint64_t& free_at = free_at_[{record.device, record.stream}];
  record.begin = std::max(now, free_at);
  record.end = free_at = record.begin + nanos;
  cudasim::CuptiSim::Get().NoteCall(FunctionFor(record.kind), now);
  cudasim::CuptiSim::Get().NoteWork(record);
}

void ClockDevice::Wait() {
  std::lock_guard lock(mutex_);
  for (const auto& [stream, free_at] : free_at_) {
    clock_now = std::max<uint64_t>(clock_now, free_at);
  }
}

}  // namespace ebbtide
