// Live bytes at a row of instants, to ranges of which bytes are added: whole
// blocks of instants are added to at once. Private to the planner.
#ifndef EBBTIDE_PLANNER_BLOCKED_PEAKS_H_
#define EBBTIDE_PLANNER_BLOCKED_PEAKS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace ebbtide {

class BlockedPeaks {
 public:
  static constexpr int kBlock = 64;  // instants

  explicit BlockedPeaks(std::vector<int64_t> bytes)
      : bytes_(std::move(bytes)),
        blocks_((bytes_.size() + kBlock - 1) / kBlock) {}

  int size() const { return static_cast<int>(bytes_.size()); }
  int blocks() const { return static_cast<int>(blocks_.size()); }
  int64_t operator[](int k) const {
    return bytes_[k] + blocks_[k / kBlock].added;
  }

  // To instants [begin, end).
  void Add(int begin, int end, int64_t bytes) {
    for (int k = begin; k < end;) {
      Block& block = blocks_[k / kBlock];
      const int next = std::min(size(), (k / kBlock + 1) * kBlock);
      const int to = std::min(end, next);
      block.changed = true;
      if (k % kBlock == 0 && to == next) {
        block.added += bytes;
        block.peak += bytes;
      } else {
        for (int u = k; u < to; ++u) bytes_[u] += bytes;
        block.peak_known = false;
      }
      k = to;
    }
  }

  // Most bytes of a block.
  int64_t Peak(int b) {
    Block& block = blocks_[b];
    if (!block.peak_known) {
      const int begin = b * kBlock;
      const int end = std::min(size(), begin + kBlock);
      block.peak =
          *std::max_element(bytes_.begin() + begin, bytes_.begin() + end) +
          block.added;
      block.peak_known = true;
    }
    return block.peak;
  }

  // True if anything was added to the block since the last call.
  bool TakeChanged(int b) { return std::exchange(blocks_[b].changed, false); }

 private:
  struct Block {
    int64_t added = 0;  // to all of its instants
    int64_t peak = 0;
    bool peak_known = false;
    bool changed = true;
  };

  std::vector<int64_t> bytes_;
  std::vector<Block> blocks_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_PLANNER_BLOCKED_PEAKS_H_
