// Checkpoints of least peak where every other layer is computed once more, from
// the checkpoint before it (Hong et al., arXiv 2502.12499; time is no part of
// the question, one more forward pass at most is its answer). Two models of
// what a peak is, over the sizes d of n layers; layers 0 and n - 1 are always
// checkpoints.
#ifndef EBBTIDE_PLANNER_MIN_PEAK_H_
#define EBBTIDE_PLANNER_MIN_PEAK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/chain.h"
#include "planner/chain_plan.h"

namespace ebbtide {

struct MinPeakResult {
  int64_t peak = 0;
  std::vector<int> checkpoints;  // ascending
};

// A checkpoint goes when the layers behind it are done. The peak from
// checkpoint i on is M(i) = d[i] + min over j > i of max(M(j), U(i, j)), where
// U(i, j) = d[i+1] + .. + d[j] + d[j] + max(d[i..j]): the layers up to the next
// checkpoint, its gradient and the largest that is worked on; M(n-1) = d[n-1].
// O(n). Sizes are not negative, there is at least one, three times their sum
// fits.
MinPeakResult MinPeak(absl::Span<const int64_t> sizes);

// All checkpoints are held to the end: the sum of theirs and the largest of
// H(i, j) = d[i+1] + .. + d[j] + max(d[i..j]) over neighbours i, j. O(n^3).
MinPeakResult MinPeakHeld(absl::Span<const int64_t> sizes);

// The plan of a chain that keeps x at the checkpoints and saves the stages
// between two of them when their backward comes; those behind the last but one
// at once. The sizes of its layers are xb.
std::vector<int64_t> LayerSizes(const Chain& chain);
std::vector<ChainAction> CheckpointPlan(const Chain& chain,
                                        absl::Span<const int> checkpoints);

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_MIN_PEAK_H_
