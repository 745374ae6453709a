// What the tier below a device and the way there are called to people: below
// RAM bytes are spilled to a file on disk, below a CUDA device they are
// offloaded to host memory. (Keys of the report and variables say "spill" and
// "disk" for both, as ever.)
#ifndef EBBTIDE_HOOKS_TIER_WORDS_H_
#define EBBTIDE_HOOKS_TIER_WORDS_H_

namespace ebbtide {

struct TierWords {
  const char* move;    // "no room to .."
  const char* moved;   // "12 MiB .."
  const char* moving;  // "no more .."
  const char* allow;   // what has it on
};

inline constexpr TierWords kDiskWords = {"spill", "spilled", "spilling",
                                         "EBBTIDE_SPILL_DIR"};
inline constexpr TierWords kHostWords = {
    "offload to host memory", "offloaded to host memory",
    "offloading to host memory", "EBBTIDE_SPILL_DIR other than none"};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_TIER_WORDS_H_
