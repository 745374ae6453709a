#include "profiler/cupti_window.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "profiler/cupti_kinds.h"
#include "profiler/cupti_layout.h"

namespace ebbtide {
namespace {

struct Kind {
  uint32_t number;
  const char* name;
};
// In the order in which they are enabled: work last, so that none is recorded
// whose call was not.
constexpr Kind kKinds[] = {
    {kCuptiExternalCorrelation, "EXTERNAL_CORRELATION"},
    {kCuptiMemset, "MEMSET"},
    {kCuptiMemcpy, "MEMCPY"},
    {kCuptiMemcpyPeer, "MEMCPY2"},
    {kCuptiConcurrentKernel, "CONCURRENT_KERNEL"},
};

void Request(uint8_t** buffer, size_t* size, size_t* records) {
  CuptiCollector::Get().Request(buffer, size, records);
}

void Complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CuptiCollector::Get().Complete(buffer, valid);
}

// Callback of the temporary subscriber, which subscribes to nothing.
void Ignore(void*, uint32_t, uint32_t, const void*) {}

absl::Status Refused(const std::string& profiler) {
  return absl::FailedPreconditionError(
      absl::StrCat("CUPTI: another profiler is active: ", profiler));
}

absl::Status CheckOtherProfiler(const CuptiWindowOptions& options) {
  const std::string name =
      options.other_profiler ? options.other_profiler() : "";
  return name.empty() ? absl::OkStatus() : Refused(name);
}

// Takes the only subscriber and gives it back at once: a profiler that starts
// later must find it free.
absl::Status CheckSubscriber(const CuptiApi& api) {
  void* subscriber = nullptr;
  const CuptiResult result = api.subscribe(&subscriber, &Ignore, nullptr);
  if (result == kCuptiMultipleSubscribers) {
    return Refused(
        std::string(CuptiStatus(api, result, "cuptiSubscribe").message()));
  }
  absl::Status status = CuptiStatus(api, result, "cuptiSubscribe");
  if (!status.ok()) return status;
  return CuptiStatus(api, api.unsubscribe(subscriber), "cuptiUnsubscribe");
}

absl::Status CheckInjection() {
  const char* const library = std::getenv("CUDA_INJECTION64_PATH");
  if (library == nullptr || *library == '\0') return absl::OkStatus();
  return Refused(absl::StrCat("CUDA_INJECTION64_PATH=", library));
}

std::string EnableName(const Kind& kind, bool enable) {
  return absl::StrCat("cuptiActivity", enable ? "Enable" : "Disable", "(",
                      kind.name, ")");
}

// The thinned calls, on or off. All are tried; the first error. Names are made
// for errors only: there are some eighty calls at each end of a window.
absl::Status SetCalls(const CuptiApi& api, bool enable) {
  absl::Status status;
  const auto set = [&](auto function, const char* name, uint32_t id) {
    const CuptiResult result = function(id, enable ? 1 : 0);
    if (result == kCuptiSuccess) return;
    status.Update(
        CuptiStatus(api, result, absl::StrCat(name, "(", id, ")").c_str()));
  };
  for (const uint32_t id : kCuptiRuntimeCalls) {
    set(api.activity_enable_runtime_api, "cuptiActivityEnableRuntimeApi", id);
  }
  for (const uint32_t id : kCuptiDriverCalls) {
    set(api.activity_enable_driver_api, "cuptiActivityEnableDriverApi", id);
  }
  return status;
}

absl::StatusOr<size_t> DeviceBuffers(const CuptiApi& api) {
  size_t value = 0;
  size_t size = sizeof value;
  const absl::Status status = CuptiStatus(
      api,
      api.activity_get_attribute(kCuptiDeviceBufferPoolLimit, &size, &value),
      "cuptiActivityGetAttribute(DEVICE_BUFFER_POOL_LIMIT)");
  if (!status.ok()) return status;
  return value;
}

absl::Status SetDeviceBuffers(const CuptiApi& api, size_t value) {
  size_t size = sizeof value;
  return CuptiStatus(
      api,
      api.activity_set_attribute(kCuptiDeviceBufferPoolLimit, &size, &value),
      "cuptiActivitySetAttribute(DEVICE_BUFFER_POOL_LIMIT)");
}

// Since the last query.
absl::StatusOr<size_t> TakeDropped(const CuptiApi& api) {
  size_t dropped = 0;
  const absl::Status status = CuptiStatus(
      api, api.activity_get_num_dropped_records(nullptr, 0, &dropped),
      "cuptiActivityGetNumDroppedRecords");
  if (!status.ok()) return status;
  return dropped;
}

absl::Status CheckDropped(const CuptiApi& api) {
  const auto dropped = TakeDropped(api);
  if (!dropped.ok()) return dropped.status();
  if (*dropped == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("CUPTI: ", *dropped, " records were dropped"));
}

}  // namespace

CuptiWindow::CuptiWindow(const CuptiApi& api, const CuptiWindowOptions& options)
    : api_(api), options_(options) {}

absl::StatusOr<std::unique_ptr<CuptiWindow>> CuptiWindow::Begin(
    const CuptiApi& api, const CuptiWindowOptions& options) {
  uint32_t version = 0;
  absl::Status status =
      CuptiStatus(api, api.get_version(&version), "cuptiGetVersion");
  if (!status.ok()) return status;
  const auto layout = CuptiLayoutOf(version);
  if (!layout.ok()) return layout.status();
  status.Update(CheckOtherProfiler(options));
  status.Update(CheckInjection());
  if (status.ok()) status = CheckSubscriber(api);
  if (!status.ok()) return status;
  status = CuptiCollector::Get().Open(*layout, api.activity_get_next_record,
                                      options.limits);
  if (!status.ok()) return status;
  std::unique_ptr<CuptiWindow> window(new CuptiWindow(api, options));
  status = window->Start();
  if (!status.ok()) return status;
  window->began_ = true;
  return window;
}

// An error undoes its effects.
absl::Status CuptiWindow::Start() {
  absl::Status status = LimitDeviceBuffers();
  if (status.ok()) {
    status =
        CuptiStatus(api_, api_.activity_register_callbacks(&Request, &Complete),
                    "cuptiActivityRegisterCallbacks");
  }
  // Records that an earlier user of CUPTI has lost do not count for this
  // window.
  if (status.ok()) status = TakeDropped(api_).status();
  if (status.ok()) {
    status = Enable();
    if (!status.ok()) {
      DisableAll(api_).IgnoreError();
      Flush().IgnoreError();
    }
  }
  if (status.ok()) return status;
  if (limited_) SetDeviceBuffers(api_, device_buffers_before_).IgnoreError();
  CuptiCollector::Get().Close();
  ended_ = true;
  return status;
}

absl::Status CuptiWindow::LimitDeviceBuffers() {
  const auto before = DeviceBuffers(api_);
  if (!before.ok()) return before.status();
  device_buffers_before_ = *before;
  limited_ = true;
  return SetDeviceBuffers(api_, options_.device_buffers);
}

absl::Status CuptiWindow::Enable() {
  absl::Status status = SetCalls(api_, true);
  for (const Kind& kind : kKinds) {
    if (!status.ok()) return status;
    status = CuptiStatus(api_, api_.activity_enable(kind.number),
                         EnableName(kind, true).c_str());
  }
  return status;
}

absl::Status CuptiWindow::DisableAll(const CuptiApi& api) {
  absl::Status status;
  for (const Kind& kind : kKinds) {
    status.Update(CuptiStatus(api, api.activity_disable(kind.number),
                              EnableName(kind, false).c_str()));
  }
  status.Update(SetCalls(api, false));
  return status;
}

// All that is recorded comes back to us, unless CUPTI is late beyond patience.
absl::Status CuptiWindow::Flush() {
  absl::Status status =
      CuptiStatus(api_, api_.activity_flush_all(kCuptiFlushForced),
                  "cuptiActivityFlushAll");
  CuptiCollector::Get().AwaitBuffers(options_.patience);
  return status;
}

void CuptiWindow::Push(uint64_t id) {
  NoteCall(api_.activity_push_external_correlation_id(kCuptiCustom2, id), true);
}

void CuptiWindow::Pop() {
  uint64_t id = 0;
  NoteCall(api_.activity_pop_external_correlation_id(kCuptiCustom2, &id),
           false);
}

void CuptiWindow::NoteCall(CuptiResult result, bool is_push) {
  if (result == kCuptiSuccess) return;
  CuptiResult none = kCuptiSuccess;
  (is_push ? push_error_ : pop_error_).compare_exchange_strong(none, result);
}

absl::StatusOr<CuptiRecords> CuptiWindow::End() {
  if (ended_) {
    return absl::FailedPreconditionError("CUPTI: the window has ended");
  }
  ended_ = true;
  absl::Status status = CheckOtherProfiler(options_);
  if (status.ok()) {
    status.Update(DisableAll(api_));
    status.Update(Flush());
    status.Update(CheckDropped(api_));
  } else {
    // The buffer that CUPTI fills now is ours, and lost to the other profiler
    // if it goes on. Not by force, which takes work that still runs its times.
    api_.activity_flush_all(0);
  }
  status.Update(SetDeviceBuffers(api_, device_buffers_before_));
  CuptiCollector::Collected collected = CuptiCollector::Get().Close();
  status.Update(collected.status);
  if (collected.lost_buffers > 0) {
    status.Update(absl::DataLossError(absl::StrCat(
        "CUPTI: ", collected.lost_buffers, " buffers did not come back")));
  }
  status.Update(
      CuptiStatus(api_, push_error_, "cuptiActivityPushExternalCorrelationId"));
  status.Update(
      CuptiStatus(api_, pop_error_, "cuptiActivityPopExternalCorrelationId"));
  if (!status.ok()) return status;
  return std::move(collected.records);
}

// A destructor cannot report the error.
CuptiWindow::~CuptiWindow() {
  if (began_ && !ended_) End().status().IgnoreError();
}

}  // namespace ebbtide
