// Classifies the bytes that autograd saved in one step: which of them can be
// evicted and how they come back; for the others, the op that made them and why
// they stay.
#ifndef EBBTIDE_HOOKS_COVERAGE_H_
#define EBBTIDE_HOOKS_COVERAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hooks/tape.h"
#include "planner/units.h"

namespace ebbtide {

// Storages of one tier, one maker and one reason.
struct CoverageGroup {
  std::string tier;  // "offload only", "kept" or "outside"
  std::string op;    // that wrote them last; if no tape takes them: saved them
  std::string reason;  // why they are not recomputed, or why they stay
  Bytes bytes{};
  int64_t storages = 0;
};

// Every storage counts once, however often it was saved.
struct Coverage {
  Bytes
      recomputable{};  // verified recipe; may have been offloaded all the same
  Bytes offload_only{};
  Bytes kept{};
  Bytes away{};  // the part of the first two that was evicted before the
                 // backward
  // Bytes made by no op of the step: parameters, and everything else. A tape
  // cannot distinguish buffers and inputs from what was made before the step.
  Bytes parameters{};
  Bytes outside{};
  // Saves by threads that do not own the pair; of those only the number is
  // known.
  int64_t foreign_saves = 0;
  std::vector<CoverageGroup> groups;  // all but the recomputable, largest first
};

// As things are when the backward begins: what the script holds then is kept.
Coverage FindCoverage(const Tape& tape, bool can_spill);

// Bytes that are here for autograd alone although no op of the pair made them:
// of compiled graphs, say, whose kernels are no ops.
Bytes SavedFromOutside(const Tape& tape);

// Why `tensor` is not one that a tape takes (IsPlainTensor).
std::string WhyNotPlain(const at::Tensor& tensor);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_COVERAGE_H_
