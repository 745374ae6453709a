// The functions of CUPTI that ebbtide calls, found at run time: nothing of ours
// links CUPTI or includes its headers, so one binary runs with any version of
// it and without. Types are CUPTI's as its C interface passes them; the values
// below are CUPTI's, too (tests/profiler/cupti_headers.cc compares them with
// its headers). Whoever needs the functions is given a pointer to the
// struct, so that tests can put their own there.
//
// Thread-safe where CUPTI is. Not to be used in a child of fork.
#ifndef EBBTIDE_PROFILER_CUPTI_API_H_
#define EBBTIDE_PROFILER_CUPTI_API_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ebbtide {

using CuptiResult = int32_t;
inline constexpr CuptiResult kCuptiSuccess = 0;
inline constexpr CuptiResult kCuptiMultipleSubscribers = 39;

// Kinds of activity records.
inline constexpr uint32_t kCuptiMemcpy = 1;
inline constexpr uint32_t kCuptiMemset = 2;
inline constexpr uint32_t kCuptiDriver = 4;
inline constexpr uint32_t kCuptiRuntime = 5;
inline constexpr uint32_t kCuptiConcurrentKernel = 10;
inline constexpr uint32_t kCuptiMemcpyPeer = 22;
inline constexpr uint32_t kCuptiExternalCorrelation = 39;

// The external ids that are ours; Kineto's are those before it.
inline constexpr uint32_t kCuptiCustom2 = 5;
inline constexpr uint32_t kCuptiFlushForced = 1;
inline constexpr uint32_t kCuptiDeviceBufferPoolLimit = 2;

using CuptiRequest = void (*)(uint8_t** buffer, size_t* size, size_t* records);
using CuptiComplete = void (*)(void* context, uint32_t stream, uint8_t* buffer,
                               size_t size, size_t valid);
using CuptiCallback = void (*)(void* argument, uint32_t domain, uint32_t id,
                               const void* data);

// Each member is the function of that name, as CUPTI documents it.
struct CuptiApi {
  // Those of the libcupti.so.13 that is in the process, else of the one beside
  // the CUDA runtime that is (the wheel's), else of a toolkit's; they stay
  // valid for ever. FailedPrecondition where there is none or a function is
  // missing in it; where another version is loaded, because two take each
  // other's callbacks; and without a driver: CUPTI 13.2 then recurses without
  // end in any call, cuptiGetVersion included. All that may change when torch
  // is loaded.
  static absl::StatusOr<const CuptiApi*> Loaded();

  CuptiResult (*get_version)(uint32_t* version);
  CuptiResult (*get_result_string)(CuptiResult result, const char** text);
  CuptiResult (*subscribe)(void** subscriber, CuptiCallback callback,
                           void* argument);
  CuptiResult (*unsubscribe)(void* subscriber);
  CuptiResult (*activity_register_callbacks)(CuptiRequest request,
                                             CuptiComplete complete);
  CuptiResult (*activity_enable)(uint32_t kind);
  CuptiResult (*activity_disable)(uint32_t kind);
  CuptiResult (*activity_enable_runtime_api)(uint32_t id, uint8_t enable);
  CuptiResult (*activity_enable_driver_api)(uint32_t id, uint8_t enable);
  CuptiResult (*activity_push_external_correlation_id)(uint32_t kind,
                                                       uint64_t id);
  CuptiResult (*activity_pop_external_correlation_id)(uint32_t kind,
                                                      uint64_t* id);
  CuptiResult (*activity_flush_all)(uint32_t flag);
  CuptiResult (*activity_get_next_record)(uint8_t* buffer, size_t valid,
                                          void** record);
  CuptiResult (*activity_get_num_dropped_records)(void* context,
                                                  uint32_t stream,
                                                  size_t* dropped);
  CuptiResult (*activity_get_attribute)(uint32_t attribute, size_t* size,
                                        void* value);
  CuptiResult (*activity_set_attribute)(uint32_t attribute, size_t* size,
                                        void* value);
};

// The status of a result of `call`. Any error means that there is no CUPTI for
// us: FailedPrecondition where another profiler is the reason, else
// Unavailable.
absl::Status CuptiStatus(const CuptiApi& api, CuptiResult result,
                         const char* call);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_API_H_
