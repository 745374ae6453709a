// The purpose of live bytes, as far as it is known. A block starts as kOther
// and is moved once its role shows.
#ifndef EBBTIDE_PROFILER_KIND_H_
#define EBBTIDE_PROFILER_KIND_H_

#include <array>
#include <cstdint>

#include "planner/units.h"

namespace ebbtide {

enum class Kind : uint8_t {
  kOther,      // temporaries, batches, what the script holds, small blocks
  kParameter,  // parameters and buffers of modules
  kGradient,   // gradients of parameters
  kOptimizer,  // optimizer state
  kSaved,      // held by autograd for the backward pass
  kScratch,    // made by ebbtide itself: recomputed and restored values
};
inline constexpr int kKinds = 6;

// Indexed by Kind.
using BytesByKind = std::array<Bytes, kKinds>;

// The name used in reports and in trace files read by people.
constexpr const char* KindName(Kind kind) {
  constexpr const char* kNames[kKinds] = {
      "other", "parameters", "gradients", "optimizer", "saved", "scratch"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace ebbtide

#endif  // EBBTIDE_PROFILER_KIND_H_
