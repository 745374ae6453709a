// Bytes of its outputs that an op never writes.
//
// Some kernels ask for more than they use: of the workspace of mkldnn_rnn_layer
// two thirds stay as the memory was. The content of such bytes is arbitrary in
// an unmanaged run too, so nothing reproducible depends on them, and a
// recomputation that repeats all other bytes is exact. They are found by
// running the op into memory filled with one byte, then with another: a byte
// that shows both is a gap. Thread-compatible.
#ifndef EBBTIDE_HOOKS_GAPS_H_
#define EBBTIDE_HOOKS_GAPS_H_

#include <ATen/ATen.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ebbtide {

struct Gap {  // [begin, end) of a storage
  size_t begin = 0;
  size_t end = 0;
};
using Gaps = std::vector<Gap>;         // in order, not touching
using OutputGaps = std::vector<Gaps>;  // by output of an op

// Finds the gaps of `original`, given what two more runs of its op left in
// memory filled with `fill` and with `other_fill`, which differ. Nullopt where
// a byte that the op writes differs, or the gaps are too many to keep.
class GapSearch {
 public:
  GapSearch(const c10::Storage& original, const c10::Storage& run,
            uint8_t fill);
  // `run` of the constructor need not live any more.
  std::optional<Gaps> Find(const c10::Storage& other_run,
                           uint8_t other_fill) const;

 private:
  bool IsCandidate(size_t byte) const {
    return (candidates_[byte / 8] >> (byte % 8) & 1) != 0;
  }

  const c10::Storage original_;      // where the host can read it
  std::vector<uint8_t> candidates_;  // a bit per byte
  bool differs_ = false;
};

// Digest of the bytes outside `gaps`; nullptr where there are none.
size_t DigestOutside(const Gaps* gaps, const c10::Storage& bytes);

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_GAPS_H_
