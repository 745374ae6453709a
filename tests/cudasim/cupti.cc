// The face of the simulated CUPTI: its functions, and cupti_control.h.
#include <cstddef>
#include <cstdint>

#include "tests/cudasim/cupti_control.h"
#include "tests/cudasim/cupti_sim.h"

using cudasim::CuptiSim;

namespace {

// CUPTI's names of its results.
const char* NameOf(int result) {
  switch (result) {
    case 0:
      return "CUPTI_SUCCESS";
    case 1:
      return "CUPTI_ERROR_INVALID_PARAMETER";
    case 7:
      return "CUPTI_ERROR_INVALID_OPERATION";
    case 11:
      return "CUPTI_ERROR_NOT_IMPLEMENTED";
    case 18:
      return "CUPTI_ERROR_QUEUE_EMPTY";
    case 21:
      return "CUPTI_ERROR_INVALID_KIND";
    case 35:
      return "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
    case 39:
      return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    case 999:
      return "CUPTI_ERROR_UNKNOWN";
    default:
      return nullptr;
  }
}

}  // namespace

extern "C" {

int cuptiGetVersion(uint32_t* version) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) *version = CuptiSim::Get().version();
  return result;
}

int cuptiGetResultString(int result, const char** text) {
  *text = NameOf(result);
  return *text == nullptr ? cudasim::kCuptiInvalidParameter : 0;
}

int cuptiSubscribe(void** subscriber,
                   void (*)(void*, uint32_t, uint32_t, const void*), void*) {
  const int result = CuptiSim::Get().Enter(__func__);
  return result != 0 ? result : CuptiSim::Get().Subscribe(subscriber);
}

int cuptiUnsubscribe(void* subscriber) {
  const int result = CuptiSim::Get().Enter(__func__);
  return result != 0 ? result : CuptiSim::Get().Unsubscribe(subscriber);
}

// Callbacks at calls are not simulated: what Kineto does with CUPTI beyond what
// is here has no effect.
int cuptiEnableCallback(uint32_t, void*, uint32_t, uint32_t) {
  return CuptiSim::Get().Enter(__func__);
}

int cuptiEnableDomain(uint32_t, void*, uint32_t) {
  return CuptiSim::Get().Enter(__func__);
}

// The names of calls in a trace, for Kineto of torch 2.15.
int cuptiGetCallbackName(uint32_t, uint32_t, const char** name) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) *name = "simulated";
  return result;
}

int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) {
  return CuptiSim::Get().Enter(__func__);
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*ticks)()) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) CuptiSim::Get().RegisterTicks(ticks);
  return result;
}

int cuptiFinalize() { return CuptiSim::Get().Enter(__func__); }

int cuptiActivityRegisterCallbacks(void (*request)(uint8_t**, size_t*, size_t*),
                                   void (*complete)(void*, uint32_t, uint8_t*,
                                                    size_t, size_t)) {
  const int result = CuptiSim::Get().Enter(__func__);
  return result != 0 ? result : CuptiSim::Get().Register({request, complete});
}

int cuptiActivityEnable(uint32_t kind) {
  const int result = CuptiSim::Get().Enter(__func__);
  return result != 0 ? result : CuptiSim::Get().Enable(kind, true);
}

int cuptiActivityDisable(uint32_t kind) {
  const int result = CuptiSim::Get().Enter(__func__);
  return result != 0 ? result : CuptiSim::Get().Enable(kind, false);
}

int cuptiActivityEnableRuntimeApi(uint32_t function, uint8_t enable) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) CuptiSim::Get().EnableCall(false, function, enable != 0);
  return result;
}

int cuptiActivityEnableDriverApi(uint32_t function, uint8_t enable) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) CuptiSim::Get().EnableCall(true, function, enable != 0);
  return result;
}

int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) cudasim::PushCuptiId(kind, id);
  return result;
}

int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* id) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result != 0) return result;
  return cudasim::PopCuptiId(kind, id) ? 0 : cudasim::kCuptiQueueEmpty;
}

int cuptiActivityFlushAll(uint32_t flag) {
  const int result = CuptiSim::Get().Enter(__func__);
  return result != 0 ? result : CuptiSim::Get().Flush((flag & 1) != 0);
}

int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result != 0) return result;
  const uint32_t version = CuptiSim::Get().version();
  return cudasim::NextCuptiRecord(buffer, valid, version, record);
}

int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result == 0) *dropped = CuptiSim::Get().TakeDropped();
  return result;
}

int cuptiActivityGetAttribute(uint32_t attribute, size_t* size, void* value) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result != 0) return result;
  return CuptiSim::Get().Attribute(attribute, size, value, false);
}

int cuptiActivitySetAttribute(uint32_t attribute, size_t* size, void* value) {
  const int result = CuptiSim::Get().Enter(__func__);
  if (result != 0) return result;
  return CuptiSim::Get().Attribute(attribute, size, value, true);
}

int cuptisim_set(const char* name, int64_t value) {
  return CuptiSim::Get().Set(name, value);
}

void cuptisim_fail(const char* function, int64_t after, int64_t times,
                   int result) {
  CuptiSim::Get().Fail(function, after, times, result);
}

uint64_t cuptisim_calls(const char* function) {
  return CuptiSim::Get().calls(function);
}

void cuptisim_stats(CuptisimStats* out) { *out = CuptiSim::Get().stats(); }

void cuptisim_release() { CuptiSim::Get().Release(); }

void cuptisim_reset() { CuptiSim::Get().Reset(); }

}  // extern "C"
