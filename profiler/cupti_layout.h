// Offsets of the fields of CUPTI's activity records. CUPTI appends to its
// records from version to version, so what we read of them has kept its place
// from 13.0 to 13.2; the sizes have not. These are facts about the binary
// interface on 64-bit machines, compared with the headers of CUPTI where those
// are (tests/profiler/cupti_headers.cc).
#ifndef EBBTIDE_PROFILER_CUPTI_LAYOUT_H_
#define EBBTIDE_PROFILER_CUPTI_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace ebbtide {

// Every record starts with its kind, in 32 bits.
inline constexpr size_t kCuptiKindSize = 4;

// Offsets in the record of a piece of device work.
struct CuptiWorkLayout {
  size_t begin;
  size_t end;
  size_t device;
  size_t stream;
  size_t correlation;
};
inline constexpr CuptiWorkLayout kKernelLayout = {16, 24, 40, 48, 92};
inline constexpr CuptiWorkLayout kCopyLayout = {16, 24, 32, 40, 44};
inline constexpr CuptiWorkLayout kPeerCopyLayout = {16, 24, 32, 40, 60};
inline constexpr CuptiWorkLayout kSetLayout = {16, 24, 32, 40, 44};
inline constexpr size_t kCopyDirectionOffset = 4;  // one byte
inline constexpr size_t kCopyBytesOffset = 8;      // copies to peers included
inline constexpr size_t kSetBytesOffset = 8;

struct CuptiExternalLayout {
  size_t kind;
  size_t id;
  size_t correlation;
};
inline constexpr CuptiExternalLayout kExternalLayout = {4, 8, 16};

struct CuptiCallLayout {
  size_t function;
  size_t begin;
  size_t end;
  size_t thread;
  size_t correlation;
};
inline constexpr CuptiCallLayout kCallLayout = {4, 8, 16, 28, 32};

// Sizes of whole records in one version.
struct CuptiLayout {
  size_t kernel;
  size_t copy = 96;
  size_t peer_copy = 96;
  size_t set = 88;
  size_t call = 40;
  size_t external = 24;

  // 0 for a kind that we do not read.
  size_t SizeOf(uint32_t kind) const;
};
inline constexpr CuptiLayout kCupti130 = {.kernel = 216};  // kernel record 10
inline constexpr CuptiLayout kCupti132 = {.kernel = 224};  // kernel record 11

// The layout for a version as cuptiGetVersion returns it (130001 is 13.0,
// update 1). Unimplemented for any but 13.0 and 13.2, with the number in the
// message.
absl::StatusOr<CuptiLayout> CuptiLayoutOf(uint32_t version);

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_CUPTI_LAYOUT_H_
