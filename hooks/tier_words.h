// Names in messages for the tier below a device: below RAM bytes are offloaded
// to a file on disk, below a CUDA device to host memory. (Keys of the report
// use "spill" and "disk" for both.)
#ifndef EBBTIDE_HOOKS_TIER_WORDS_H_
#define EBBTIDE_HOOKS_TIER_WORDS_H_

namespace ebbtide {

struct TierWords {
  const char* move;    // "no room to .."
  const char* moved;   // "12 MiB .."
  const char* moving;  // "no more .."
  const char* allow;   // the setting that enables it
};

inline constexpr TierWords kDiskWords = {"offload", "offloaded", "offloading",
                                         "EBBTIDE_OFFLOAD_DIR"};
inline constexpr TierWords kHostWords = {
    "offload to host memory", "offloaded to host memory",
    "offloading to host memory", "EBBTIDE_OFFLOAD_DIR other than none"};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_TIER_WORDS_H_
