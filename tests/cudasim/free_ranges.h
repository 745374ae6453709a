// First fit in a range that starts at 0 and grows at its end.
#ifndef EBBTIDE_TESTS_CUDASIM_FREE_RANGES_H_
#define EBBTIDE_TESTS_CUDASIM_FREE_RANGES_H_

#include <cstdint>
#include <map>

namespace cudasim {

// Not thread-safe. O(holes).
class FreeRanges {
 public:
  uint64_t Take(uint64_t size);
  void Give(uint64_t begin, uint64_t size);
  // Everything ever taken lies before it.
  uint64_t end() const { return end_; }

 private:
  std::map<uint64_t, uint64_t> holes_;  // begin to size; no two are adjacent
  uint64_t end_ = 0;
};

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_FREE_RANGES_H_
