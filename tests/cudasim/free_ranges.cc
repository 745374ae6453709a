#include "tests/cudasim/free_ranges.h"

#include <iterator>

namespace cudasim {

uint64_t FreeRanges::Take(uint64_t size) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < size) continue;
    const uint64_t begin = hole->first;
    const uint64_t rest = hole->second - size;
    holes_.erase(hole);
    if (rest > 0) holes_[begin + size] = rest;
    return begin;
  }
  const uint64_t begin = end_;
  end_ += size;
  return begin;
}

void FreeRanges::Give(uint64_t begin, uint64_t size) {
  auto hole = holes_.emplace(begin, size).first;
  const auto next = std::next(hole);
  if (next != holes_.end() && begin + size == next->first) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  const auto before = std::prev(hole);
  if (before->first + before->second == begin) {
    before->second += hole->second;
    holes_.erase(hole);
  }
}

}  // namespace cudasim
