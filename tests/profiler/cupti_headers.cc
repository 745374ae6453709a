// Checks our facts about CUPTI's binary interface against CUPTI's own headers:
// those that are installed, and those of other versions whose folder is known.
// All is decided when this is compiled; the test says which version it was.
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "profiler/cupti_api.h"
#include "profiler/cupti_kinds.h"
#include "profiler/cupti_layout.h"

namespace ebbtide {
namespace {

#if CUPTI_API_VERSION / 100 == 1300
using Kernel = CUpti_ActivityKernel10;
constexpr CuptiLayout kLayout = kCupti130;
#elif CUPTI_API_VERSION / 100 == 1302
using Kernel = CUpti_ActivityKernel11;
constexpr CuptiLayout kLayout = kCupti132;
#endif
using Copy = CUpti_ActivityMemcpy6;
using PeerCopy = CUpti_ActivityMemcpyPtoP4;
using Set = CUpti_ActivityMemset4;
using External = CUpti_ActivityExternalCorrelation;
using Call = CUpti_ActivityAPI;

static_assert(sizeof(Kernel) == kLayout.kernel);
static_assert(sizeof(Copy) == kLayout.copy);
static_assert(sizeof(PeerCopy) == kLayout.peer_copy);
static_assert(sizeof(Set) == kLayout.set);
static_assert(sizeof(External) == kLayout.external);
static_assert(sizeof(Call) == kLayout.call);

template <typename Record>
constexpr bool Holds(const CuptiWorkLayout& at) {
  return at.begin == offsetof(Record, start) &&
         at.end == offsetof(Record, end) &&
         at.device == offsetof(Record, deviceId) &&
         at.stream == offsetof(Record, streamId) &&
         at.correlation == offsetof(Record, correlationId) &&
         sizeof(Record::start) == 8 && sizeof(Record::end) == 8 &&
         sizeof(Record::deviceId) == 4 && sizeof(Record::streamId) == 4 &&
         sizeof(Record::correlationId) == 4 && offsetof(Record, kind) == 0 &&
         sizeof(Record::kind) == kCuptiKindSize;
}
static_assert(Holds<Kernel>(kKernelLayout));
static_assert(Holds<Copy>(kCopyLayout));
static_assert(Holds<PeerCopy>(kPeerCopyLayout));
static_assert(Holds<Set>(kSetLayout));
static_assert(offsetof(Copy, copyKind) == kCopyDirectionOffset);
static_assert(sizeof(Copy::copyKind) == 1);
static_assert(offsetof(Copy, bytes) == kCopyBytesOffset);
static_assert(offsetof(PeerCopy, bytes) == kCopyBytesOffset);
static_assert(offsetof(Set, bytes) == kSetBytesOffset);
static_assert(sizeof(Copy::bytes) == 8 && sizeof(PeerCopy::bytes) == 8 &&
              sizeof(Set::bytes) == 8);
static_assert(offsetof(External, externalKind) == kExternalLayout.kind);
static_assert(offsetof(External, externalId) == kExternalLayout.id);
static_assert(offsetof(External, correlationId) == kExternalLayout.correlation);
static_assert(offsetof(Call, cbid) == kCallLayout.function);
static_assert(offsetof(Call, start) == kCallLayout.begin);
static_assert(offsetof(Call, end) == kCallLayout.end);
static_assert(offsetof(Call, threadId) == kCallLayout.thread);
static_assert(offsetof(Call, correlationId) == kCallLayout.correlation);

static_assert(int{kCuptiSuccess} == int{CUPTI_SUCCESS});
static_assert(kCuptiMultipleSubscribers ==
              int{CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED});
static_assert(kCuptiMemcpy == CUPTI_ACTIVITY_KIND_MEMCPY);
static_assert(kCuptiMemset == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(kCuptiDriver == CUPTI_ACTIVITY_KIND_DRIVER);
static_assert(kCuptiRuntime == CUPTI_ACTIVITY_KIND_RUNTIME);
static_assert(kCuptiConcurrentKernel == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(kCuptiMemcpyPeer == CUPTI_ACTIVITY_KIND_MEMCPY2);
static_assert(kCuptiExternalCorrelation ==
              CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
static_assert(kCuptiCustom2 == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
static_assert(kCuptiFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(kCuptiDeviceBufferPoolLimit ==
              CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);

// A function of ours takes what CUPTI's does, pointer for pointer and number
// for number of the same size.
template <typename Ours, typename Theirs>
constexpr bool IsPassedAlike() {
  if constexpr (std::is_void_v<Ours> || std::is_pointer_v<Ours> ||
                std::is_void_v<Theirs> || std::is_pointer_v<Theirs>) {
    return std::is_void_v<Ours> == std::is_void_v<Theirs> &&
           std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs);
  }
}
template <typename Ours, typename Theirs>
struct Alike : std::false_type {};
template <typename Result, typename... Ours, typename TheirResult,
          typename... Theirs>
struct Alike<Result (*)(Ours...), TheirResult(Theirs...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (IsPassedAlike<Result, TheirResult>() && ... &&
              IsPassedAlike<Ours, Theirs>());
    }
    return false;
  }
  static constexpr bool value = Compare();
};
#define EXPECT_ALIKE(member, function) \
  static_assert(Alike<decltype(CuptiApi::member), decltype(function)>::value)
EXPECT_ALIKE(get_version, cuptiGetVersion);
EXPECT_ALIKE(get_result_string, cuptiGetResultString);
EXPECT_ALIKE(subscribe, cuptiSubscribe);
EXPECT_ALIKE(unsubscribe, cuptiUnsubscribe);
EXPECT_ALIKE(activity_register_callbacks, cuptiActivityRegisterCallbacks);
EXPECT_ALIKE(activity_enable, cuptiActivityEnable);
EXPECT_ALIKE(activity_disable, cuptiActivityDisable);
EXPECT_ALIKE(activity_enable_runtime_api, cuptiActivityEnableRuntimeApi);
EXPECT_ALIKE(activity_enable_driver_api, cuptiActivityEnableDriverApi);
EXPECT_ALIKE(activity_push_external_correlation_id,
             cuptiActivityPushExternalCorrelationId);
EXPECT_ALIKE(activity_pop_external_correlation_id,
             cuptiActivityPopExternalCorrelationId);
EXPECT_ALIKE(activity_flush_all, cuptiActivityFlushAll);
EXPECT_ALIKE(activity_get_next_record, cuptiActivityGetNextRecord);
EXPECT_ALIKE(activity_get_num_dropped_records,
             cuptiActivityGetNumDroppedRecords);
EXPECT_ALIKE(activity_get_attribute, cuptiActivityGetAttribute);
EXPECT_ALIKE(activity_set_attribute, cuptiActivitySetAttribute);
static_assert(
    Alike<CuptiRequest,
          std::remove_pointer_t<CUpti_BuffersCallbackRequestFunc>>::value);
static_assert(
    Alike<CuptiComplete,
          std::remove_pointer_t<CUpti_BuffersCallbackCompleteFunc>>::value);

// The first and the last number of each line in cupti_kinds.h.
constexpr bool IsRuntimeCall(uint32_t number) {
  for (const uint32_t call : kCuptiRuntimeCalls) {
    if (call == number) return true;
  }
  return false;
}
constexpr bool IsDriverCall(uint32_t number) {
  for (const uint32_t call : kCuptiDriverCalls) {
    if (call == number) return true;
  }
  return false;
}
static_assert(IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
static_assert(
    IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060));
static_assert(
    IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000));
static_assert(
    IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000));
static_assert(IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020));
static_assert(IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020));
static_assert(IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_v3020));
static_assert(IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020));
static_assert(
    IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000));
static_assert(IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000));
static_assert(
    IsRuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000));
static_assert(IsDriverCall(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
static_assert(IsDriverCall(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx));
static_assert(IsDriverCall(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync));
static_assert(IsDriverCall(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2));
static_assert(IsDriverCall(CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async));
static_assert(IsDriverCall(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch));

// The same name in two versions' objects would be one test.
class CuptiHeaders : public testing::Test {
 public:
  void TestBody() override {
    const auto layout = CuptiLayoutOf(CUPTI_API_VERSION);
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->kernel, sizeof(Kernel));
  }
};

[[maybe_unused]] const testing::TestInfo* const registered =
    testing::RegisterTest(
        "CuptiHeaders",
        CUPTI_API_VERSION / 100 == 1300 ? "AgreeFor130" : "AgreeFor132",
        nullptr, nullptr, __FILE__, __LINE__,
        []() -> testing::Test* { return new CuptiHeaders; });

}  // namespace
}  // namespace ebbtide
