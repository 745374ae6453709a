#include "profiler/cupti_layout.h"

#include "absl/strings/str_cat.h"
#include "profiler/cupti_api.h"

namespace ebbtide {

size_t CuptiLayout::SizeOf(uint32_t kind) const {
  switch (kind) {
    case kCuptiConcurrentKernel:
      return kernel;
    case kCuptiMemcpy:
      return copy;
    case kCuptiMemcpyPeer:
      return peer_copy;
    case kCuptiMemset:
      return set;
    case kCuptiDriver:
    case kCuptiRuntime:
      return call;
    case kCuptiExternalCorrelation:
      return external;
    default:
      return 0;
  }
}

absl::StatusOr<CuptiLayout> CuptiLayoutOf(uint32_t version) {
  // The last two digits are those of an update, which changes no record.
  constexpr uint32_t kUpdates = 100;
  switch (version / kUpdates) {
    case 1300:
      return kCupti130;
    case 1302:
      return kCupti132;
    default:
      return absl::UnimplementedError(
          absl::StrCat("CUPTI ", version,
                       " is not known: its records are read of 13.0 (1300xx) "
                       "and 13.2 (1302xx) alone"));
  }
}

}  // namespace ebbtide
